// What the Node scripts beside this one have in common; conversation.py says what they do.

import { readFileSync } from "node:fs";

export const question = "How warm is it in Oslo?";

export const description = "Tell the weather of a city.";

export const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
};

export function getWeather({ city }) {
  return { Oslo: "12 degrees" }[city];
}

export function turn(reasoning, content) {
  return { reasoning: reasoning ?? "", content: content ?? "" };
}

/** Hold the conversations that the command line says in each way to use the client; print the report. */
export async function report(name, waysToUse) {
  const [baseURL, ...models] = process.argv.slice(2);
  const conversations = {};
  for (const [use, converse] of Object.entries(waysToUse)) {
    conversations[use] = {};
    for (const model of models) {
      const stream = await converse(baseURL, model, true);
      const whole = await converse(baseURL, model, false);
      conversations[use][model] = { stream, whole };
    }
  }
  const manifest = new URL(`../node_modules/${name}/package.json`, import.meta.url);
  const { version } = JSON.parse(readFileSync(manifest, "utf8"));
  process.stdout.write(JSON.stringify({ version, conversations }));
}
