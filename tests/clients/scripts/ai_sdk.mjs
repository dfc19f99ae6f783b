// The conversation by the AI SDK with its provider for compatible servers, which holds it by itself.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

import { description, getWeather, parameters, question, report, turn } from "./conversation.mjs";

async function converse(baseURL, model, stream) {
  const provider = createOpenAICompatible({ name: "think-proxy", baseURL, apiKey: "none" });
  const request = {
    model: provider(model),
    prompt: question,
    tools: {
      get_weather: tool({ description, inputSchema: jsonSchema(parameters), execute: getWeather }),
    },
    stopWhen: stepCountIs(2),
    maxRetries: 0,
  };
  const steps = stream ? await streamText(request).steps : (await generateText(request)).steps;
  return steps.map((step) => turn(step.reasoningText, step.text));
}

await report("@ai-sdk/openai-compatible", { "": converse });
