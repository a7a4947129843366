/** The job that a command is about: a given one, or the one chosen in a dialog. */

import { clean, shortened } from "./visuals/base/words.js";

const IS_ID = /^[A-Za-z0-9]{1,64}$/;
/** The dialog is as wide as its longest choice. */
const LONGEST_NAME = 40;

/** Whether a value is the id of a job. */
export function isJobId(value) {
  return typeof value === "string" && IS_ID.test(value);
}

/**
 * Promises the id of a job: `given` if it is one, else that of the only job of `query`, else the one that the person
 * chooses; null if none is chosen. Throws `none` without any. `offers(job)` says which are offered.
 */
export async function chooseJob(shared, feed, given, { query, title, none, offers = () => true }) {
  if (isJobId(given)) return given;
  const { InputDialog } = shared["@jupyterlab/apputils"];
  const items = (await feed.call("GET", `jobs?${query}`)).items.filter(offers);
  if (!items.length) throw new Error(none);
  if (items.length === 1) return items[0].id;
  const names = items.map(({ id, name }) => `${shortened(clean(name), LONGEST_NAME)} (${id})`);
  const { button, value } = await InputDialog.getItem({ title, items: names, okLabel: "Open" });
  return button.accept && value !== null ? items[names.indexOf(value)].id : null;
}
