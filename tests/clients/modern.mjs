// The SDK's second generation, which asks the server for its revisions; both settle on 2026-07-28. Its skills client
// verifies each file that it reads. Arguments: what to ask as JSON, then the server's command.

import { Client } from "@modelcontextprotocol/client";
import { SkillsClient } from "@modelcontextprotocol/client/ext/skills";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { report } from "./report.mjs";

const [asked, command, ...args] = process.argv.slice(2);
const client = new Client(
  { name: "modern", version: "1" },
  { versionNegotiation: { mode: "auto" }, enforceStrictCapabilities: true },
);
await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));
if (client.getNegotiatedProtocolVersion() !== "2026-07-28") {
  throw new Error(`the server settled on ${client.getNegotiatedProtocolVersion()}`);
}
const skills = new SkillsClient(client);
await report(client, JSON.parse(asked), {
  list: (params) => skills.list(params),
  get: (uri) => skills.get(uri),
  directory: (uri) => skills.readDirectory(uri),
  file: async (skill, uri) => Buffer.from((await skills.read(skill, uri)).bytes),
});
await client.close();
