// Says how Mermaid itself reads flowcharts: a line of JSON in, a line of JSON out.
//
// node mermaid_oracle.mjs FOLDER, where FOLDER has node_modules with mermaid and jsdom. Each line
// of the input is a text; each of the output has what Mermaid made of it, or why it refused it.
// Labels are as the parser has them: what makes them safe for a page (DOMPurify) is left out,
// because it is about HTML and not about the language; so are numbers of edges that are too many
// for a page.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { join, resolve } from 'node:path';

const folder = resolve(process.argv[2]);
const { JSDOM } = createRequire(join(folder, 'package.json'))('jsdom');
const dom = new JSDOM('<!doctype html><body></body>');
globalThis.window = dom.window;
globalThis.document = dom.window.document;
const main = join(folder, 'node_modules/mermaid/dist/mermaid.core.mjs');
const { default: mermaid } = await import(pathToFileURL(main));
const silent = () => undefined;
Object.assign(console, { log: silent, warn: silent, error: silent, info: silent, debug: silent });
mermaid.initialize({ startOnLoad: false, maxEdges: 1e9, securityLevel: 'loose', logLevel: 'fatal' });
const { getDiagramFromText } = mermaid.mermaidAPI;

const database = Object.getPrototypeOf((await getDiagramFromText('graph TD')).db);
database.sanitizeText = (text) => text;
const clear = database.clear;
database.clear = function (version) {
  clear.call(this, version);
  this.accessible = {};
  this.setAccTitle = (text) => (this.accessible.title = text.replace(/^\s+/g, ''));
  this.setAccDescription = (text) => (this.accessible.description = text.replace(/\n\s+/g, '\n'));
};

const corner = document.createElement('div');
const reveal = (text) =>
  text.replace(/ﬂ°(°?)(.*?)¶ß/g, (_, isNumber, name) => {
    corner.innerHTML = isNumber ? `&#${name};` : `&${name};`;
    return corner.textContent;
  });
const say = (value) => (value === undefined || value === null ? '' : reveal(String(value)));
const sayAll = (object) => {
  const entries = Object.entries(object ?? {}).map(([key, value]) => [key, say(value)]);
  return entries.length ? Object.fromEntries(entries) : '';
};
const defined = (object) =>
  Object.fromEntries(
    Object.entries(object).filter(([, value]) => value !== '' && value?.length !== 0)
  );

function describe({ db }) {
  const ids = new Set([...db.getVertices().keys(), ...db.getSubGraphs().map(({ id }) => id)]);
  const nodes = [...db.getVertices().values()].map((node) =>
    defined({
      id: reveal(node.id),
      text: say(node.text),
      kind: node.labelType,
      shape: say(node.type),
      classes: node.classes,
      styles: node.styles.map(say),
      properties: Object.entries(node.props ?? {}),
      attributes: Object.entries({
        constraint: say(node.constraint),
        form: say(node.form),
        h: say(node.assetHeight),
        icon: say(node.icon),
        img: say(node.img),
        pos: say(node.pos),
        w: say(node.assetWidth),
      }).filter(([, value]) => value !== ''),
      link: say(node.link),
      target: say(node.linkTarget),
      callback: node.haveCallback ? 'yes' : '',
    })
  );
  const edges = db.getEdges().map((edge) =>
    defined({
      id: say(edge.id),
      own: edge.isUserDefinedId ? 'yes' : '',
      start: edge.start,
      end: edge.end,
      type: edge.type,
      stroke: edge.stroke,
      length: say(edge.length),
      text: say(edge.text),
      kind: edge.labelType,
      classes: edge.classes,
      styles: edge.style ?? [],
      curve: say(edge.interpolate),
      animate: say(edge.animate),
      animation: say(edge.animation),
      step: edge.step ?? '',
    })
  );
  const subgraphs = db.getSubGraphs().map((subgraph) =>
    defined({
      id: reveal(subgraph.id),
      title: reveal(subgraph.title),
      kind: subgraph.labelType,
      members: subgraph.nodes.filter((id) => ids.has(id)).map(reveal),
      direction: say(subgraph.dir),
      classes: subgraph.classes,
      attributes: sayAll(subgraph.metadata),
    })
  );
  return {
    direction: db.getDirection(),
    nodes,
    edges,
    subgraphs,
    classes: [...db.getClasses().values()].map(({ id, styles, textStyles }) => [
      id,
      styles,
      textStyles,
    ]),
    tooltips: [...db.tooltips].map(([id, text]) => [id, reveal(text)]),
    default_styles: db.getEdges().defaultStyle ?? [],
    default_curve: say(db.getEdges().defaultInterpolate),
    title: say(db.accessible.title),
    description: say(db.accessible.description),
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const diagram = await getDiagramFromText(JSON.parse(line));
    answer = diagram.type.startsWith('flowchart')
      ? { diagram: describe(diagram) }
      : { refused: `a diagram of the type ${diagram.type}` };
  } catch (error) {
    answer = { refused: String(error?.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
