// Print how Mermaid reads flowcharts: one line of JSON for each line of JSON in the input.
//
// node mermaid_oracle.mjs FOLDER, where FOLDER has node_modules with mermaid and jsdom. Each line
// of the input is a text; each line of the output describes the diagram, or has the error.
// Labels are as the parser has them. The step that makes them safe for a page (DOMPurify) is left
// out, because it concerns HTML and not the language, and so is the limit on the number of edges.
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

const element = document.createElement('div');
const decodeEntities = (text) =>
  text.replace(/ﬂ°(°?)(.*?)¶ß/g, (_, isNumber, name) => {
    element.innerHTML = isNumber ? `&#${name};` : `&${name};`;
    return element.textContent;
  });
const formatValue = (value) =>
  value === undefined || value === null ? '' : decodeEntities(String(value));
const formatFields = (object) => {
  const entries = Object.entries(object ?? {}).map(([key, value]) => [key, formatValue(value)]);
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
      id: decodeEntities(node.id),
      text: formatValue(node.text),
      kind: node.labelType,
      shape: formatValue(node.type),
      classes: node.classes,
      styles: node.styles.map(formatValue),
      properties: Object.entries(node.props ?? {}),
      attributes: Object.entries({
        constraint: formatValue(node.constraint),
        form: formatValue(node.form),
        h: formatValue(node.assetHeight),
        icon: formatValue(node.icon),
        img: formatValue(node.img),
        pos: formatValue(node.pos),
        w: formatValue(node.assetWidth),
      }).filter(([, value]) => value !== ''),
      link: formatValue(node.link),
      target: formatValue(node.linkTarget),
      callback: node.haveCallback ? 'yes' : '',
    })
  );
  const edges = db.getEdges().map((edge) =>
    defined({
      id: formatValue(edge.id),
      own: edge.isUserDefinedId ? 'yes' : '',
      start: edge.start,
      end: edge.end,
      type: edge.type,
      stroke: edge.stroke,
      length: formatValue(edge.length),
      text: formatValue(edge.text),
      kind: edge.labelType,
      classes: edge.classes,
      styles: edge.style ?? [],
      curve: formatValue(edge.interpolate),
      animate: formatValue(edge.animate),
      animation: formatValue(edge.animation),
      step: edge.step ?? '',
    })
  );
  const subgraphs = db.getSubGraphs().map((subgraph) =>
    defined({
      id: decodeEntities(subgraph.id),
      title: decodeEntities(subgraph.title),
      kind: subgraph.labelType,
      members: subgraph.nodes.filter((id) => ids.has(id)).map(decodeEntities),
      direction: formatValue(subgraph.dir),
      classes: subgraph.classes,
      attributes: formatFields(subgraph.metadata),
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
    tooltips: [...db.tooltips].map(([id, text]) => [id, decodeEntities(text)]),
    default_styles: db.getEdges().defaultStyle ?? [],
    default_curve: formatValue(db.getEdges().defaultInterpolate),
    title: formatValue(db.accessible.title),
    description: formatValue(db.accessible.description),
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
