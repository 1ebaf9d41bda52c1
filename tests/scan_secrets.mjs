// Prints by name what secretlint's recommended rules take for a secret in the texts on standard input, as JSON.
import { lintSource } from "@secretlint/core";
import { creator } from "@secretlint/secretlint-rule-preset-recommend";
import { readFileSync } from "node:fs";

const found = {};
for (const [name, content] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  const source = { filePath: "a.md", content, ext: ".md", contentType: "text" };
  const config = { rules: [{ id: "@secretlint/secretlint-rule-preset-recommend", rule: creator }] };
  const { messages } = await lintSource({ source, options: { config } });
  found[name] = messages.map(({ ruleId }) => ruleId.replace("@secretlint/secretlint-rule-", ""));
}
process.stdout.write(JSON.stringify(found));
