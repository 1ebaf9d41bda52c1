// The SDK's first generation: the handshake of 2025-11-25. Arguments: what to ask as JSON, then the server's command.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { z } from "zod";

import { report } from "./report.mjs";

const [asked, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "handshake", version: "1" });
await client.connect(new StdioClientTransport({ command, args, stderr: "inherit" }));
const extension = (method, params) => client.request({ method, params }, z.looseObject({}));
await report(client, JSON.parse(asked), {
  list: (params) => extension("skills/list", params ?? {}),
  get: (uri) => extension("skills/get", { uri }),
  directory: (uri) => extension("resources/directory/read", { uri }),
  file: async (skill, uri) => {
    const [{ text, blob }] = (await client.readResource({ uri })).contents;
    return blob === undefined ? Buffer.from(text, "utf8") : Buffer.from(blob, "base64");
  },
});
await client.close();
