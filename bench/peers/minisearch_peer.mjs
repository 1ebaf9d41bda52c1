// MiniSearch with its default options over the fields of a document, asked as the other peers are.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import MiniSearch from "minisearch";

const DEPTH = 15;
const FIELDS = ["name", "title", "tags", "capabilities", "scenarios", "description"];

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const linesOf = (input) => createInterface({ input, crlfDelay: Infinity });

const index = new MiniSearch({
  idField: "path",
  fields: FIELDS,
  extractField: (document, field) => [document[field]].flat().join(" "),
});
let seconds = 0;
for await (const line of linesOf(createReadStream(process.argv[2], "utf8"))) {
  const document = JSON.parse(line);
  const started = performance.now();
  index.add(document);
  seconds += (performance.now() - started) / 1000;
}
say({ seconds });

for await (const line of linesOf(process.stdin)) {
  const request = JSON.parse(line);
  const ms = [];
  let found = 0;
  const end = performance.now() + request.seconds * 1000;
  for (const query of request.queries) {
    const started = performance.now();
    if (started >= end && ms.length) break;
    const best = index.search(query).slice(0, DEPTH);
    ms.push(performance.now() - started);
    found += best.length > 0;
  }
  say({ ms, found });
}
