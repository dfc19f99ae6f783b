// The conversation by OpenAI's Node library: with the stream folded here, and by the library's helper.

import OpenAI from "openai";

import { description, getWeather, parameters, question, report, turn } from "./conversation.mjs";

const tools = [{ type: "function", function: { name: "get_weather", description, parameters } }];

async function fold(stream) {
  const message = { role: "assistant", content: "" };
  for await (const chunk of stream) {
    const { tool_calls: calls = [], role: _, ...texts } = chunk.choices[0]?.delta ?? {};
    for (const [name, text] of Object.entries(texts)) {
      if (typeof text === "string") message[name] = (message[name] ?? "") + text;
    }
    for (const { index, id, type, function: part } of calls) {
      message.tool_calls ??= [];
      message.tool_calls[index] ??= { id, type, function: { name: part.name, arguments: "" } };
      message.tool_calls[index].function.arguments += part.arguments;
    }
  }
  return message;
}

async function create(client, stream, request) {
  const answer = await client.chat.completions.create({ ...request, stream });
  return stream ? fold(answer) : answer.choices[0].message;
}

async function helper(client, stream, request) {
  if (!stream) return create(client, stream, request);
  return client.chat.completions.stream(request).finalMessage();
}

function conversation(ask) {
  return async (baseURL, model, stream) => {
    const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
    const messages = [{ role: "user", content: question }];
    const turns = [];
    while (turns.length < 2) {
      const message = await ask(client, stream, { model, messages, tools });
      turns.push(turn(message.reasoning_content ?? message.reasoning, message.content));
      messages.push(message);
      for (const call of message.tool_calls ?? []) {
        const content = getWeather(JSON.parse(call.function.arguments));
        messages.push({ role: "tool", tool_call_id: call.id, content });
      }
    }
    return turns;
  };
}

await report("openai", { create: conversation(create), helper: conversation(helper) });
