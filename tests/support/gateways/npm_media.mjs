// Requests images, speech, transcripts, vectors and completions with the official libraries of npm.
//
// node npm_media.mjs FOLDER JOB, where FOLDER has node_modules with the libraries and JOB is JSON:
// {client, call, address, model, text, file}. Prints one line of JSON: {text} of a transcript or a
// completion, {files} in base64, {rows} of vectors, or {error: {name, status, message}}.
import { pathToFileURL } from 'node:url';
import { join, resolve } from 'node:path';

const modules = join(resolve(process.argv[2]), 'node_modules');
const job = JSON.parse(process.argv[3]);
const load = (path) => import(pathToFileURL(join(modules, path)));
const encode = (bytes) => Buffer.from(bytes).toString('base64');
const data = Buffer.from(job.file ?? '', 'base64');
const server = { apiKey: 'sk-client', baseURL: `${job.address}/v1` };

const CLIENTS = {
  openai: async () => {
    const { default: OpenAI, toFile } = await load('openai/index.mjs');
    const api = new OpenAI({ ...server, maxRetries: 0 });
    const readImages = ({ data: images }) => ({ files: images.map((image) => image.b64_json) });
    return {
      draw: async () => readImages(await api.images.generate({ model: job.model, prompt: job.text, n: 2 })),
      edit: async () => {
        const image = await toFile(data, 'a.png', { type: 'image/png' });
        return readImages(await api.images.edit({ model: job.model, prompt: job.text, image }));
      },
      speak: async () => {
        const body = { model: job.model, input: job.text, voice: 'alloy', response_format: 'wav' };
        return { files: [encode(await (await api.audio.speech.create(body)).arrayBuffer())] };
      },
      transcribe: async () => {
        const file = await toFile(data, 'talk.mp3', { type: 'audio/mpeg' });
        return { text: (await api.audio.transcriptions.create({ model: job.model, file })).text };
      },
      embed: async () => {
        const body = { model: job.model, input: [job.text, 'another'] };
        const { data: rows } = await api.embeddings.create(body);
        return { rows: rows.map((row) => row.embedding) };
      },
      complete: async () => {
        const body = { model: job.model, prompt: job.text, max_tokens: 30 };
        return { text: (await api.completions.create(body)).choices[0].text };
      },
      followCompletion: async () => {
        const body = { model: job.model, prompt: job.text, max_tokens: 30, stream: true };
        const pieces = [];
        for await (const chunk of await api.completions.create(body)) {
          pieces.push(chunk.choices[0]?.text ?? '');
        }
        return { text: pieces.join('') };
      },
      follow: async () => {
        const file = await toFile(data, 'talk.mp3', { type: 'audio/mpeg' });
        const body = { model: job.model, file, stream: true };
        const deltas = [];
        for await (const event of await api.audio.transcriptions.create(body)) {
          if (event.type === 'transcript.text.delta') deltas.push(event.delta);
        }
        return { text: deltas.join('') };
      },
    };
  },
  ai: async () => {
    const ai = await load('ai/dist/index.js');
    const { createOpenAI } = await load('@ai-sdk/openai/dist/index.js');
    const provider = createOpenAI(server);
    const generateImage = ai.generateImage ?? ai.experimental_generateImage;
    const generateSpeech = ai.generateSpeech ?? ai.experimental_generateSpeech;
    const transcribe = ai.transcribe ?? ai.experimental_transcribe;
    const rest = { maxRetries: 0 };
    const draw = async (prompt, n) => {
      const model = provider.image(job.model);
      const { images } = await generateImage({ model, prompt, n, maxImagesPerCall: 2, ...rest });
      return { files: images.map((image) => image.base64) };
    };
    return {
      draw: () => draw(job.text, 2),
      edit: () => draw({ text: job.text, images: [data] }, 1),
      embed: async () => {
        const model = (provider.embedding ?? provider.textEmbeddingModel)(job.model);
        const { embeddings } = await ai.embedMany({ model, values: [job.text, 'another'], ...rest });
        return { rows: embeddings };
      },
      complete: async () => {
        const model = provider.completion(job.model);
        const body = { model, prompt: job.text, maxOutputTokens: 30, ...rest };
        return { text: (await ai.generateText(body)).text };
      },
      followCompletion: async () => {
        const model = provider.completion(job.model);
        const body = { model, prompt: job.text, maxOutputTokens: 30, ...rest };
        return { text: await ai.streamText(body).text };
      },
      speak: async () => {
        const model = provider.speech(job.model);
        const body = { model, text: job.text, voice: 'alloy', outputFormat: 'wav' };
        return { files: [(await generateSpeech({ ...body, ...rest })).audio.base64] };
      },
      transcribe: async () => {
        const model = provider.transcription(job.model);
        return { text: (await transcribe({ model, audio: data, ...rest })).text };
      },
    };
  },
};

let result;
try {
  result = await (await CLIENTS[job.client]())[job.call]();
} catch (error) {
  const status = error.status ?? error.statusCode;
  result = { error: { name: error.constructor.name, status, message: error.message } };
}
console.log(JSON.stringify(result));
