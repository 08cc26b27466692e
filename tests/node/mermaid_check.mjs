// Mermaid's own verdict on diagrams. Reads JSON lines {id, text} and answers each with one JSON line:
//   {id, ok: true, type, nodes, edges, texts, edge_texts}   or   {id, ok: false, error}
// `texts` are the labels as a reader sees them: entities decoded, and whatever Mermaid would not show as written
// (a tag, a line break made of \n, an icon, a formula) is gone or replaced by U+FFFD, so that comparing a label with its
// source finds it. Mermaid needs a DOM for any label; happy-dom lends one, and nothing is drawn.
import { createInterface } from "node:readline";
import { Window } from "happy-dom";

const page = new Window({ url: "http://localhost/" });
for (const name of Object.getOwnPropertyNames(page)) {
  if (name in globalThis && name !== "navigator") continue;
  const value = page[name];
  const bound = typeof value === "function" && /^[a-z]/.test(name) ? value.bind(page) : value;
  Object.defineProperty(globalThis, name, { value: bound, configurable: true, writable: true });
}
Object.defineProperty(globalThis, "window", { value: page, configurable: true, writable: true });

// After the globals: DOMPurify looks for its window while it is being loaded.
const { default: mermaid } = await import("mermaid");
mermaid.initialize({ startOnLoad: false, securityLevel: "strict", logLevel: "fatal" });

const MAX_TEXT = 50_000; // Mermaid's default `maxTextSize`, which it checks only when it draws.

/** What a reader sees of a label that the parser has stored. */
function shown(label) {
  const markup = (label ?? "")
    .replace(/ﬂ°°/g, "&#")
    .replace(/ﬂ°/g, "&")
    .replace(/¶ß/g, ";")
    .replace(/\\n/g, "\n")
    .replace(/fa[bklrs]?:fa-[\w-]+/g, "\ufffd")
    .replace(/\$\$.*?\$\$/g, "\ufffd")
    .replace(/<br\s*\/?>/g, "\n");
  const box = page.document.createElement("div");
  box.innerHTML = markup;
  return box.textContent;
}

async function check(text) {
  if (text.length > MAX_TEXT) throw new Error(`${text.length} characters, and Mermaid draws at most ${MAX_TEXT}`);
  const { diagramType } = await mermaid.parse(text);
  const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
  const vertices = [...(db.getVertices?.()?.values() ?? [])];
  const edges = db.getEdges?.() ?? [];
  return {
    type: diagramType,
    nodes: vertices.length,
    edges: edges.length,
    texts: vertices.map((vertex) => shown(vertex.text ?? vertex.id)),
    edge_texts: edges.map((edge) => shown(edge.text)),
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, text } = JSON.parse(line);
  let answer;
  try {
    answer = { id, ok: true, ...(await check(text)) };
  } catch (error) {
    answer = { id, ok: false, error: String(error?.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await page.happyDOM.close();
