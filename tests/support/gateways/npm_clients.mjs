// Asks through the official libraries of npm: a line of JSON in, a line of JSON out.
//
// node npm_clients.mjs FOLDER, where FOLDER has node_modules with the libraries. A line in is
// {client, address, model, stream, question, picture?, tools?, schema?, limit?, leave?}; a line out is
// what the library heard: {text, calls, pieces, value}, {left} or {error: {name, status, message}}.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { join, resolve } from 'node:path';

const modules = join(resolve(process.argv[2]), 'node_modules');
const load = (path) => import(pathToFileURL(join(modules, path)));
const { default: OpenAI } = await load('openai/index.mjs');
const { zodResponseFormat, zodTextFormat } = await load('openai/helpers/zod.mjs');
const { toResponseInputItems } = await load('openai/lib/responses/ResponseInputItems.mjs');
const { default: Anthropic } = await load('@anthropic-ai/sdk/index.mjs');
const { zodOutputFormat } = await load('@anthropic-ai/sdk/helpers/zod.mjs');
const { generateText, streamText, stepCountIs, tool, Output } = await load('ai/dist/index.js');
const { createOpenAI } = await load('@ai-sdk/openai/dist/index.js');
const { createAnthropic } = await load('@ai-sdk/anthropic/dist/index.js');
const { z } = await load('zod/index.js');

const KEY = { apiKey: 'sk-client' };
const TOOL = { name: 'clock', description: 'Tells the time.' };
const SCHEMA = z.object({ sea: z.string() });
const PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};
const tellTime = ({ city }) => `noon in ${city}`;
const toUrl = (job) => `data:image/png;base64,${job.picture}`;

// Each library's own words for one turn, whole or streamed: `ask` returns a stream or an answer,
// `isPiece` tells pieces of text, `finish` waits for the whole, `read` and `follow` understand it.
const CLIENTS = {
  chat: (job) => {
    const api = new OpenAI({ ...KEY, baseURL: `${job.address}/v1`, maxRetries: 0 }).chat.completions;
    const content = [{ type: 'text', text: job.question }];
    if (job.picture) content.push({ type: 'image_url', image_url: { url: toUrl(job) } });
    const body = { model: job.model, max_completion_tokens: 500 };
    const described = { ...TOOL, parameters: PARAMETERS, strict: true };
    if (job.tools) body.tools = [{ type: 'function', function: described }];
    if (job.schema) body.response_format = zodResponseFormat(SCHEMA, 'answer');
    return {
      history: [{ role: 'user', content }],
      ask: (messages) => (job.stream ? api.stream : api.parse).call(api, { ...body, messages }),
      isPiece: (event) => Boolean(event.choices[0]?.delta.content),
      finish: (stream) => stream.finalChatCompletion(),
      read: ({ choices: [{ message }] }) => ({
        text: message.content ?? '',
        value: message.parsed,
        calls: (message.tool_calls ?? []).map((call) => ({
          id: call.id,
          name: call.function.name,
          input: JSON.parse(call.function.arguments),
        })),
      }),
      follow: ({ choices: [{ message }] }, results) => [
        message,
        ...results.map(([id, content]) => ({ role: 'tool', tool_call_id: id, content })),
      ],
    };
  },
  responses: (job) => {
    const api = new OpenAI({ ...KEY, baseURL: `${job.address}/v1`, maxRetries: 0 }).responses;
    const content = [{ type: 'input_text', text: job.question }];
    if (job.picture) content.push({ type: 'input_image', detail: 'auto', image_url: toUrl(job) });
    const body = { model: job.model, max_output_tokens: 500, store: false };
    const described = { type: 'function', ...TOOL, parameters: PARAMETERS, strict: true };
    if (job.tools) body.tools = [described];
    if (job.schema) body.text = { format: zodTextFormat(SCHEMA, 'answer') };
    return {
      history: [{ role: 'user', content }],
      ask: (input) => (job.stream ? api.stream : api.parse).call(api, { ...body, input }),
      isPiece: (event) => event.type === 'response.output_text.delta',
      finish: (stream) => stream.finalResponse(),
      read: (answer) => ({
        text: answer.output_text,
        value: answer.output_parsed,
        calls: answer.output
          .filter((item) => item.type === 'function_call')
          .map((call) => ({ ...call, id: call.call_id, input: JSON.parse(call.arguments) })),
      }),
      follow: (answer, results) => [
        ...toResponseInputItems(answer.output),
        ...results.map(([call_id, output]) => ({ type: 'function_call_output', call_id, output })),
      ],
    };
  },
  messages: (job) => {
    const api = new Anthropic({ ...KEY, baseURL: job.address, maxRetries: 0 }).messages;
    const content = [{ type: 'text', text: job.question }];
    const source = { type: 'base64', media_type: 'image/png', data: job.picture };
    if (job.picture) content.unshift({ type: 'image', source });
    const body = { model: job.model, max_tokens: 500 };
    if (job.tools) body.tools = [{ ...TOOL, input_schema: PARAMETERS }];
    if (job.schema) body.output_config = { format: zodOutputFormat(SCHEMA) };
    return {
      history: [{ role: 'user', content }],
      ask: (messages) => (job.stream ? api.stream : api.parse).call(api, { ...body, messages }),
      isPiece: (event) => event.type === 'content_block_delta' && event.delta.type === 'text_delta',
      finish: (stream) => stream.finalMessage(),
      read: (answer) => ({
        text: answer.content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
        value: answer.parsed_output,
        calls: answer.content.filter((block) => block.type === 'tool_use'),
      }),
      follow: ({ role, content }, results) => [
        { role, content },
        {
          role: 'user',
          content: results.map(([tool_use_id, content]) => ({
            type: 'tool_result',
            tool_use_id,
            content,
          })),
        },
      ],
    };
  },
};

async function converse(job) {
  const client = CLIENTS[job.client](job);
  const heard = { text: '', calls: [], pieces: 0, value: null };
  for (let going = true; going; ) {
    let answer = await client.ask(client.history);
    if (job.stream) {
      const stream = answer;
      for await (const event of stream) {
        if (!client.isPiece(event)) continue;
        heard.pieces += 1;
        if (job.leave) {
          stream.abort();
          return { left: true };
        }
      }
      answer = await client.finish(stream);
    }
    const { text, value, calls } = client.read(answer);
    heard.text += text;
    heard.value = value ?? null;
    heard.calls.push(...calls.map((call) => [call.name, call.input]));
    client.history.push(...client.follow(answer, calls.map(({ id, input }) => [id, tellTime(input)])));
    going = calls.length > 0;
  }
  return heard;
}

const MODELS = {
  'ai-chat': ({ address, model }) => createOpenAI({ ...KEY, baseURL: `${address}/v1` }).chat(model),
  'ai-responses': ({ address, model }) =>
    createOpenAI({ ...KEY, baseURL: `${address}/v1` }).responses(model),
  'ai-messages': ({ address, model }) =>
    createAnthropic({ ...KEY, baseURL: `${address}/v1` }).languageModel(model),
};

// By the model's name it decides which of two fields holds the limit of tokens, and with a provider
// before the name it does not know the model.
async function converseByAi(job) {
  const leaving = new AbortController();
  const content = [{ type: 'text', text: job.question }];
  if (job.picture) content.push({ type: 'file', mediaType: 'image/png', data: job.picture });
  const asked = {
    model: MODELS[job.client](job),
    messages: [{ role: 'user', content }],
    maxRetries: 0,
    abortSignal: leaving.signal,
    stopWhen: stepCountIs(3),
  };
  const described = { description: TOOL.description, inputSchema: z.object({ city: z.string() }) };
  if (job.limit) asked.maxOutputTokens = job.limit;
  if (job.tools) asked.tools = { clock: tool({ ...described, execute: tellTime }) };
  if (job.schema) asked.output = Output.object({ schema: SCHEMA });
  let pieces = 0;
  let answer;
  if (job.stream) {
    answer = streamText({ ...asked, onError: () => undefined });
    for await (const part of answer.fullStream) {
      if (part.type === 'error') throw part.error;
      if (part.type !== 'text-delta') continue;
      pieces += 1;
      if (job.leave) {
        leaving.abort();
        return { left: true };
      }
    }
  } else {
    answer = await generateText(asked);
  }
  const steps = await answer.steps;
  return {
    text: steps.map((step) => step.text).join(''),
    calls: steps.flatMap((step) => step.toolCalls).map((call) => [call.toolName, call.input]),
    pieces,
    value: job.schema ? await answer.output : null,
  };
}

async function answer(job) {
  try {
    return await (job.client in CLIENTS ? converse(job) : converseByAi(job));
  } catch (error) {
    const status = error.status ?? error.statusCode ?? null;
    return { error: { name: error.constructor.name, status, message: String(error.message) } };
  }
}

// What an abandoned stream rejects later is nobody's.
process.on('unhandledRejection', () => undefined);
for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}
