/** A dialog that asks for one of the person's jobs. */

import { clean } from "./visuals/base/words.js";

/** Promises the id of the chosen job, or of the only one of `query`; null if none is chosen. Throws `none` without any. */
export async function chooseJob(shared, feed, { query, title, none }) {
  const { InputDialog } = shared["@jupyterlab/apputils"];
  const { items } = await feed.call("GET", `jobs?${query}`);
  if (!items.length) throw new Error(none);
  if (items.length === 1) return items[0].id;
  const names = items.map(({ id, name }) => `${clean(name)} (${id})`);
  const { button, value } = await InputDialog.getItem({ title, items: names, okLabel: "Open" });
  return button.accept && value !== null ? items[names.indexOf(value)].id : null;
}
