// Addresses of conversations and runs on the page.

// Address of a conversation, at a message if its index is given.
export function linkToTalk(id, index) {
  return `#/talk/${encodeURIComponent(id)}${index === undefined ? '' : `/${index}`}`;
}

export function linkToRun(id) {
  return `#/runs/${encodeURIComponent(id)}`;
}
