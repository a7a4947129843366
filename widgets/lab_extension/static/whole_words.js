/** Notices of JupyterLab, which cuts its notices after 140 characters, in whole words, with the rest behind a button. */

import { clean } from "./visuals/base/words.js";

const MOST = 140;

/** A text of at most `MOST` characters: its first words, and an ellipsis in place of the others. */
export function firstWords(text) {
  if (text.length <= MOST) return text;
  const head = text.slice(0, MOST);
  const words = head.slice(0, head.lastIndexOf(" ")) || head.slice(0, MOST - 1);
  return `${words.replace(/[\s,;:·.]+$/, "")}…`;
}

/** What a notice shows: its message, and its actions, the last of which shows the whole text of a long one. */
export function noticeOf(apputils, text, actions = []) {
  const whole = clean(text);
  const message = firstWords(whole);
  if (message === whole) return { message, actions };
  const { Dialog, showDialog } = apputils;
  const callback = () => showDialog({ title: "Notice", body: whole, buttons: [Dialog.okButton({ label: "Close" })] });
  return { message, actions: [...actions, { label: "Read All", caption: "Show the whole text", callback }] };
}
