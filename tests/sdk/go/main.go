// The Go SDK as a program: built and run by the tests of transports.
//
//	send TRANSPORT URL ADDRESS MODE < events     sends each event in binary or structured mode
//	receive TRANSPORT URL ADDRESS COUNT          prints "ready", receives so many events, and prints them
//
// TRANSPORT is jetstream (ADDRESS is STREAM/SUBJECT), nats (a subject) or amqp (AMQP 1.0, a queue).
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	ceamqp "github.com/cloudevents/sdk-go/protocol/amqp/v2"
	cenats "github.com/cloudevents/sdk-go/protocol/nats/v2"
	cejetstream "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/nats-io/nats.go"
)

const longest = 60 * time.Second

// An event as the tests write it: its data is JSON or text (`data`), or bytes in Base64 (`bytes`).
type given struct {
	Attributes map[string]any   `json:"attributes"`
	Data       *json.RawMessage `json:"data,omitempty"`
	Bytes      *[]byte          `json:"bytes,omitempty"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("wrong usage: see main.go")
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	if args[0] == "send" {
		return send(ctx, args[1], args[2], args[3], args[4])
	}
	count, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	return receive(ctx, args[1], args[2], args[3], count)
}

func sender(transport, url, address string) (any, error) {
	switch transport {
	case "jetstream":
		stream, subject, _ := strings.Cut(address, "/")
		return cejetstream.NewSender(url, stream, subject, nil, nil)
	case "nats":
		return cenats.NewSender(url, address, nil)
	case "amqp":
		return ceamqp.NewSenderProtocol(url, address, nil, nil)
	}
	return nil, fmt.Errorf("no transport %q", transport)
}

func receiver(transport, url, address string) (any, error) {
	switch transport {
	case "jetstream":
		stream, subject, _ := strings.Cut(address, "/")
		return cejetstream.NewConsumer(url, stream, subject, nil, nil, []nats.SubOpt{nats.DeliverAll()})
	case "nats":
		return cenats.NewConsumer(url, address, nil)
	case "amqp":
		return ceamqp.NewReceiverProtocol(url, address, nil, nil)
	}
	return nil, fmt.Errorf("no transport %q", transport)
}

func send(ctx context.Context, transport, url, address, mode string) error {
	var events []given
	if err := json.NewDecoder(os.Stdin).Decode(&events); err != nil {
		return err
	}
	protocol, err := sender(transport, url, address)
	if err != nil {
		return err
	}
	client, err := cloudevents.NewClient(protocol)
	if err != nil {
		return err
	}
	if mode == "structured" {
		ctx = binding.WithForceStructured(ctx)
	} else {
		ctx = binding.WithForceBinary(ctx)
	}
	for _, g := range events {
		event, err := g.event()
		if err != nil {
			return err
		}
		if result := client.Send(ctx, event); cloudevents.IsUndelivered(result) || cloudevents.IsNACK(result) {
			return fmt.Errorf("%s: %w", event.ID(), result)
		}
	}
	if closer, ok := protocol.(interface{ Close(context.Context) error }); ok {
		return closer.Close(ctx) // what NATS has buffered is on its way
	}
	return nil
}

func receive(ctx context.Context, transport, url, address string, count int) error {
	protocol, err := receiver(transport, url, address)
	if err != nil {
		return err
	}
	client, err := cloudevents.NewClient(protocol)
	if err != nil {
		return err
	}
	received := []given{}
	var turn sync.Mutex
	inner, enough := context.WithCancel(ctx)
	defer enough()
	go func() {
		time.Sleep(300 * time.Millisecond) // it does not say when it has subscribed
		fmt.Fprintln(os.Stderr, "ready")
	}()
	err = client.StartReceiver(inner, func(event cloudevents.Event) {
		turn.Lock()
		defer turn.Unlock()
		received = append(received, told(event))
		if len(received) == count {
			enough()
		}
	})
	turn.Lock()
	defer turn.Unlock()
	if len(received) < count {
		return fmt.Errorf("received %d of %d events: %v", len(received), count, err)
	}
	return write(os.Stdout, received)
}

func (g given) event() (cloudevents.Event, error) {
	event := cloudevents.NewEvent()
	for name, value := range g.Attributes {
		text, isText := value.(string)
		switch name {
		case "id":
			event.SetID(text)
		case "source":
			event.SetSource(text)
		case "type":
			event.SetType(text)
		case "subject":
			event.SetSubject(text)
		case "dataschema":
			event.SetDataSchema(text)
		case "datacontenttype":
			event.SetDataContentType(text)
		case "time":
			moment, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				return event, err
			}
			event.SetTime(moment)
		default:
			if number, ok := value.(float64); ok {
				event.SetExtension(name, int32(number))
			} else if isText {
				event.SetExtension(name, text)
			} else {
				event.SetExtension(name, value)
			}
		}
	}
	if g.Bytes != nil {
		event.DataEncoded = *g.Bytes
		event.DataBase64 = true
	} else if g.Data != nil {
		var text string
		if json.Unmarshal(*g.Data, &text) == nil && !strings.Contains(event.DataContentType(), "json") {
			event.DataEncoded = []byte(text)
		} else {
			event.DataEncoded = *g.Data
		}
	}
	return event, event.Validate()
}

func told(event cloudevents.Event) given {
	attributes := map[string]any{"specversion": event.SpecVersion(), "id": event.ID(), "source": event.Source(), "type": event.Type()}
	for name, value := range map[string]string{
		"subject": event.Subject(), "dataschema": event.DataSchema(), "datacontenttype": event.DataContentType(),
	} {
		if value != "" {
			attributes[name] = value
		}
	}
	if !event.Time().IsZero() {
		attributes["time"] = event.Time().Format(time.RFC3339Nano)
	}
	for name, value := range event.Extensions() {
		attributes[name] = value
	}
	found := given{Attributes: attributes}
	if data := event.Data(); len(data) > 0 {
		found.Bytes = &data
	}
	return found
}

func write(out io.Writer, received []given) error {
	return json.NewEncoder(out).Encode(map[string]any{"sdk": "go", "result": received})
}
