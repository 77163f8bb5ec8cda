// Talks with an agents daemon through the official libraries of npm: a line of JSON in, a line out.
//
// node page_clients.mjs FOLDER, where FOLDER has node_modules with the libraries. A line in is
// {client, url, thread, ...}; a line out is what the library made of the answer, or {error}.
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { join, resolve } from 'node:path';

const modules = join(resolve(process.argv[2]), 'node_modules');
const load = (path) => import(pathToFileURL(join(modules, path)));
const { HttpAgent } = await load('@ag-ui/client/dist/index.mjs');
const { AbstractChat, DefaultChatTransport } = await load('ai/dist/index.js');

const agents = new Map();
const chats = new Map();

// {say, props, resume, forget}: one run of AG-UI.
async function runAgent({ url, thread, say = [], props, resume, tools, forget }) {
  const known = agents.get(thread);
  const agent = known && !forget ? known : new HttpAgent({ url, threadId: thread });
  agents.set(thread, agent);
  for (const message of say) agent.addMessage(message);
  const events = [];
  let failure = null;
  const subscriber = {
    onEvent: ({ event }) => void events.push(event.type),
    onRunErrorEvent: ({ event }) => void (failure = event.message),
  };
  try {
    const given = { forwardedProps: props, tools, ...(resume && { resume }) };
    await agent.runAgent(given, subscriber);
  } catch (error) {
    failure ??= String(error.message ?? error);
  }
  return { events, messages: agent.messages, interrupts: agent.pendingInterrupts, failure };
}

class ChatState {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = (message) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => {
    this.messages = this.messages.map((each, place) => (place === index ? this.snapshot(message) : each));
  };
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor({ id, transport, ...callbacks }) {
    super({ id, transport, state: new ChatState(), ...callbacks });
  }
}

// {parts, approve, regenerate, edit, resume, stopAfter, forget}: one request of useChat.
async function runChat({ url, thread, body, parts, approve, regenerate, edit, resume, stopAfter, forget }) {
  let entry = chats.get(thread);
  if (!entry || forget) {
    entry = { heard: [] };
    const transport = new DefaultChatTransport({ api: url, body: () => entry.body });
    entry.chat = new Chat({
      id: thread,
      transport,
      onError: (error) => void (entry.failure = error.message),
      onData: (part) => void entry.heard.push(part),
      onFinish: ({ finishReason, isAbort }) => void (entry.finish = { finishReason, isAbort }),
    });
    chats.set(thread, entry);
  }
  const { chat } = entry;
  Object.assign(entry, { body, failure: null, finish: null, heard: [] });
  if (stopAfter) setTimeout(() => chat.stop(), stopAfter);
  if (parts) await chat.sendMessage({ role: 'user', parts, ...(edit && { messageId: edit }) });
  for (const each of approve ?? []) await chat.addToolApprovalResponse(each);
  if (approve) await chat.sendMessage();
  if (regenerate) await chat.regenerate();
  if (resume) await chat.resumeStream();
  const { failure, finish, heard } = entry;
  return { messages: chat.messages, status: chat.status, failure, finish, heard };
}

const CLIENTS = { 'ag-ui': runAgent, 'ai-sdk': runChat };

for await (const line of createInterface({ input: process.stdin })) {
  const job = JSON.parse(line);
  let answer;
  try {
    answer = await CLIENTS[job.client](job);
  } catch (error) {
    answer = { error: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
