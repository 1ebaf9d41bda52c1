// The SDK's first generation: the handshake of 2025-11-25. Arguments: what to ask as JSON, then the server's command.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { z } from "zod";

import { report, walk } from "./report.mjs";

const [asked, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "handshake", version: "1" });
await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));
const wanted = JSON.parse(asked);
const request = (method, params = {}) => client.request({ method, params }, z.looseObject({}));
await report(client, wanted, {
  skills: () => walk((params) => request("skills/list", params), "skills"),
  skill: () => request("skills/get", { uri: wanted.skill }),
  directory: () => request("resources/directory/read", { uri: wanted.directory }),
});
await client.close();
