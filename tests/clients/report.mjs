// What a client of the TypeScript SDK learns from the server, in one JSON document on standard output.

import { createHash } from "node:crypto";

/** Returns the answer of *request*, or how it was refused: one refusal leaves the rest of the document standing. */
async function answer(request) {
  try {
    return await request();
  } catch (error) {
    return { refused: { code: error.code, message: error.message } };
  }
}

/** Returns all entries of a list and the number of pages they came on. */
export async function walk(list, key) {
  const entries = [];
  let pages = 0;
  let cursor;
  do {
    const page = await list(cursor === undefined ? undefined : { cursor });
    entries.push(...page[key]);
    cursor = page.nextCursor;
    pages += 1;
  } while (cursor !== undefined);
  return { entries, pages };
}

/** Returns size and digest of each file, from the bytes that a read gives. */
async function checksums(client, uris) {
  const files = {};
  for (const uri of uris) {
    const [{ text, blob }] = (await client.readResource({ uri })).contents;
    const bytes = blob === undefined ? Buffer.from(text, "utf8") : Buffer.from(blob, "base64");
    files[uri] = { size: bytes.length, digest: `sha256:${createHash("sha256").update(bytes).digest("hex")}` };
  }
  return files;
}

/** Writes the document; *more* has further requests, by the name that their answers get. */
export async function report(client, asked, more = {}) {
  const { prompt } = asked;
  const requests = {
    tools: () => walk((params) => client.listTools(params), "tools"),
    resources: () => walk((params) => client.listResources(params), "resources"),
    templates: () => walk((params) => client.listResourceTemplates(params), "resourceTemplates"),
    prompts: () => walk((params) => client.listPrompts(params), "prompts"),
    read: () => client.readResource({ uri: asked.read }),
    missing: () => client.readResource({ uri: asked.missing }),
    search: () => client.callTool({ name: "search", arguments: asked.search }),
    mistake: () => client.callTool({ name: "search", arguments: asked.mistake }),
    prompt: () => client.getPrompt(prompt),
    unfilled: () => client.getPrompt({ name: prompt.name }),
    completion: () => client.complete(asked.completion),
    files: () => checksums(client, asked.files),
    ...more,
  };
  const document = {
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
  };
  for (const [name, request] of Object.entries(requests)) {
    document[name] = await answer(request);
  }
  process.stdout.write(JSON.stringify(document));
}
