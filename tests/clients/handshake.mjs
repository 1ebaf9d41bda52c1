// The SDK's first generation: the handshake of 2025-11-25. Arguments: what to ask as JSON, then the server's command.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

import { report } from "./report.mjs";

const [asked, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "handshake", version: "1" });
await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));
await report(client, JSON.parse(asked));
await client.close();
