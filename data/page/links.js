// Addresses of what a page shows: conversations, runs, notes, spending.

// Address of a conversation, at a message if its index is given.
export function linkToTalk(id, index) {
  return `#/talk/${encodeURIComponent(id)}${index === undefined ? '' : `/${index}`}`;
}

export function linkToComparison(first, second) {
  return `#/compare/${encodeURIComponent(first)}/${encodeURIComponent(second)}`;
}

export function linkToRun(id) {
  return `#/runs/${encodeURIComponent(id)}`;
}

export function linkToNote(path) {
  return `#/memory/${encodeURIComponent(path)}`;
}

// Address of what a key of the gateway spends.
export function linkToSpending(id) {
  return `#/spending/${encodeURIComponent(id)}`;
}
