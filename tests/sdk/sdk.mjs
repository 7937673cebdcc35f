// The JavaScript SDK as a program: run beside its node_modules by test_sdks.py.
// `send URL VERSION MODE < events` posts each event as the SDK writes it and prints what was sent and answered.
// `receive < requests` prints each event as the SDK reads it.
// `mqtt-write MODE < events` prints each event as the SDK writes it for an MQTT client, `mqtt-read < messages` as it reads it.
// `validate < documents` prints the faults that the JSON schema of CloudEvents, which the SDK carries, finds in each.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { request } from "node:http";
import { join } from "node:path";

const modules = createRequire(join(process.cwd(), "package.json"));
const { CloudEvent, HTTP, MQTT } = modules("cloudevents");
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

function event(given, specversion) {
  const data = "bytes" in given ? new Uint8Array(Buffer.from(given.bytes, "base64")) : given.data;
  return new CloudEvent({ ...given.attributes, specversion, ...(data === undefined ? {} : { data }) }, specversion === "1.0");
}

function messages(events, mode) {
  if (mode === "batch") {
    // the SDK reads batches but has no function that writes one: an array of the events that it writes
    const body = `[${events.map((e) => HTTP.structured(e).body).join(",")}]`;
    return [{ headers: { "content-type": "application/cloudevents-batch+json" }, body }];
  }
  return events.map((e) => (mode === "structured" ? HTTP.structured(e) : HTTP.binary(e)));
}

// What the SDK's own httpTransport does; that one keeps the answer's status to itself.
function post(url, { headers, body }) {
  const bytes = Buffer.from(body ?? "");
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: "POST", headers }, (answer) => {
      let said = "";
      answer.setEncoding("utf-8");
      answer.on("data", (chunk) => (said += chunk));
      answer.on("end", () =>
        resolve({
          status: answer.statusCode,
          said,
          headers: Object.fromEntries(Object.entries(headers).map(([k, v]) => [k, String(v)])),
          body: base64(bytes),
        }),
      );
    });
    sent.on("error", reject);
    sent.end(bytes);
  });
}

// As a receiver's framework would: text where the content type says text or JSON, bytes elsewhere.
function understood({ headers, body }) {
  const bytes = Buffer.from(body, "base64");
  const type = headers["content-type"] ?? "";
  const textual = /json|^text\//.test(type);
  const read = HTTP.toEvent({ headers, body: bytes.length === 0 ? undefined : textual ? bytes.toString() : new Uint8Array(bytes) });
  const { data, data_base64, ...attributes } = { ...read };
  const told = ArrayBuffer.isView(data) ? { bytes: base64(data) } : { data: data ?? null };
  return { attributes: JSON.parse(JSON.stringify(attributes)), ...told };
}

// The SDK hands data that is JSON over as an object, for the client to write; values of user properties are text.
function published(message) {
  const { body } = message;
  const text = body === undefined || typeof body === "string" || ArrayBuffer.isView(body) ? (body ?? "") : JSON.stringify(body);
  const properties = Object.entries(message["User Properties"]).filter(([, value]) => value !== undefined);
  return {
    type: message.PUBLISH["Content Type"] ?? null,
    properties: properties.map(([name, value]) => [name, String(value)]),
    payload: base64(text),
  };
}

function subscribed({ type, properties, payload }) {
  const bytes = Buffer.from(payload, "base64");
  const textual = /json|^text\//.test(type ?? "");
  const body = bytes.length === 0 ? undefined : textual ? bytes.toString() : new Uint8Array(bytes);
  const read = MQTT.toEvent({ PUBLISH: { "Content Type": type ?? undefined }, headers: Object.fromEntries(properties), body });
  const { data, data_base64, ...attributes } = { ...read };
  const told = ArrayBuffer.isView(data) ? { bytes: base64(data) } : { data: data ?? null };
  return { attributes: JSON.parse(JSON.stringify(attributes)), ...told };
}

const [command, ...rest] = process.argv.slice(2);
const given = JSON.parse(readFileSync(0, "utf-8"));
const result = [];
if (command === "send") {
  const [url, specversion, mode] = rest;
  for (const m of messages(given.map((g) => event(g, specversion)), mode)) result.push(await post(url, m));
} else if (command === "mqtt-write") {
  for (const g of given) result.push(published(MQTT[rest[0]](event(g, "1.0"))));
} else if (command === "mqtt-read") {
  for (const m of given) result.push(subscribed(m));
} else if (command === "validate") {
  const schema = modules("./node_modules/cloudevents/dist/schema/v1.js").default;
  for (const d of given) result.push(schema(d) ? [] : schema.errors.map((e) => `${e.instancePath} ${e.message}`));
} else {
  for (const r of given) result.push(understood(r));
}
const sdk = JSON.parse(readFileSync("node_modules/cloudevents/package.json", "utf-8")).version;
process.stdout.write(JSON.stringify({ sdk, result }));
