// The SDK's second generation, which asks the server for its revisions; both settle on 2026-07-28. Its skills client
// verifies each file that it reads. Arguments: what to ask as JSON, then the server's command.

import { Client } from "@modelcontextprotocol/client";
import { SkillsClient } from "@modelcontextprotocol/client/ext/skills";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { report, walk } from "./report.mjs";

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
const wanted = JSON.parse(asked);

/** Returns the files that passed the checks of a host: listed, of that size, with that digest and front matter. */
async function verified() {
  const { skill } = await skills.get(wanted.skill);
  const uris = [];
  for (const { uri } of skill.resources) {
    const file = await skills.read(skill, uri);
    if (file.verified) {
      uris.push(file.uri);
    }
  }
  return uris;
}

await report(client, wanted, {
  skills: () => walk((params) => skills.list(params), "skills"),
  skill: () => skills.get(wanted.skill),
  directory: () => skills.readDirectory(wanted.directory),
  verified,
});
await client.close();
