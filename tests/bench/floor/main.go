// Floors to measure beside: what the same work costs in Go, with net/http and franz-go and nothing else. No routing, no
// retries, no dead letters, no limits.
//
//	floor into BROKERS TOPIC        HTTP to Kafka, acks of all replicas, prints its URL
//	floor out BROKERS TOPIC GROUP URL   Kafka to HTTP, 64 requests at a time, commits what was delivered
//	floor sink                      a subscriber that counts, prints its URL; GET tells the count
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

var required = []string{"specversion", "id", "source", "type"}

func main() {
	args := os.Args[1:]
	switch {
	case len(args) == 3 && args[0] == "into":
		into(args[1], args[2])
	case len(args) == 5 && args[0] == "out":
		out(args[1], args[2], args[3], args[4])
	case len(args) == 1 && args[0] == "sink":
		sink()
	default:
		log.Fatal("see main.go for the arguments")
	}
}

func serve(handler http.HandlerFunc) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	log.Fatal(http.Serve(listener, handler))
}

func into(brokers, topic string) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers),
		kgo.DefaultProduceTopic(topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		log.Fatal(err)
	}
	serve(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		records, err := recordsOf(r.Header, body)
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		if err := client.ProduceSync(r.Context(), records...).FirstErr(); err != nil {
			http.Error(w, err.Error(), 503)
			return
		}
		w.WriteHeader(202)
	})
}

func recordsOf(header http.Header, body []byte) ([]*kgo.Record, error) {
	kind := header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "application/cloudevents-batch+json"):
		var events []map[string]json.RawMessage
		if err := json.Unmarshal(body, &events); err != nil {
			return nil, err
		}
		records := make([]*kgo.Record, 0, len(events))
		for _, event := range events {
			record, err := structured(event)
			if err != nil {
				return nil, err
			}
			records = append(records, record)
		}
		return records, nil
	case strings.HasPrefix(kind, "application/cloudevents+json"):
		var event map[string]json.RawMessage
		if err := json.Unmarshal(body, &event); err != nil {
			return nil, err
		}
		record, err := structured(event)
		return []*kgo.Record{record}, err
	}
	record := &kgo.Record{Value: body}
	for name, values := range header {
		if attribute, found := strings.CutPrefix(name, "Ce-"); found {
			set(record, strings.ToLower(attribute), values[0])
		}
	}
	if kind != "" {
		set(record, "datacontenttype", kind)
	}
	return []*kgo.Record{record}, complete(record)
}

func structured(event map[string]json.RawMessage) (*kgo.Record, error) {
	record := &kgo.Record{}
	for name, raw := range event {
		if name == "data" {
			record.Value = raw
			continue
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		set(record, name, text)
	}
	return record, complete(record)
}

func set(record *kgo.Record, attribute, value string) {
	name := "ce_" + attribute
	if attribute == "datacontenttype" {
		name = "content-type"
	}
	if attribute == "partitionkey" {
		record.Key = []byte(value)
	}
	record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
}

func complete(record *kgo.Record) error {
	for _, attribute := range required {
		found := false
		for _, header := range record.Headers {
			found = found || header.Key == "ce_"+attribute && len(header.Value) > 0
		}
		if !found {
			return fmt.Errorf("the event has no %s", attribute)
		}
	}
	return nil
}

func out(brokers, topic, group, url string) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 128
	sender := &http.Client{Transport: transport}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(),
	)
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	records := make(chan *kgo.Record, 64)
	for range 64 {
		go func() {
			for record := range records {
				if err := deliver(sender, url, record); err != nil {
					log.Fatal(err)
				}
				running.Done()
			}
		}()
	}
	for {
		fetched := client.PollRecords(context.Background(), 2000)
		fetched.EachRecord(func(record *kgo.Record) {
			running.Add(1)
			records <- record
		})
		running.Wait()
		client.MarkCommitRecords(fetched.Records()...)
	}
}

func deliver(sender *http.Client, url string, record *kgo.Record) error {
	request, err := http.NewRequest("POST", url, bytes.NewReader(record.Value))
	if err != nil {
		return err
	}
	for _, header := range record.Headers {
		if attribute, found := strings.CutPrefix(header.Key, "ce_"); found {
			request.Header.Set("ce-"+attribute, string(header.Value))
		} else {
			request.Header.Set(header.Key, string(header.Value))
		}
	}
	response, err := sender.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("the subscriber answers %s", response.Status)
	}
	return nil
}

func sink() {
	var count atomic.Int64
	serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			fmt.Fprint(w, count.Load())
			return
		}
		io.Copy(io.Discard, r.Body)
		count.Add(1)
		w.WriteHeader(202)
	})
}
