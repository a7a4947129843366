/** Notices of one's jobs in JupyterLab: one for each event over all open pages, and one for all events of a burst. */

import { burstWords, countsOf, GATHERED_MS, MOST_SINGLE } from "./visuals/base/bursts.js";
import { noticeOf } from "./whole_words.js";

const CHANNEL = "jupyterlab";
/** The number of bursts that no server has counted. */
const UNSHARED = -1;
const MOST_WAITING = 1000;
const SHOWN_MS = 10_000;
const FAILURE_SHOWN_MS = 30_000;
const TYPES = { failed: "error", paused: "warning", "time-limit": "warning", fault: "warning", workspace: "warning" };
export class Notices {
  /**
   * @param apputils JupyterLab's module with its manager of notifications and its dialogs
   * @param server `NotebookServer`
   * @param open `job(id, part)` opens a job, at its `log` or as a whole; `jobs()` opens the table of jobs
   */
  constructor(apputils, server, open) {
    this.apputils = apputils;
    this.Notification = apputils.Notification;
    this.server = server;
    this.open = open;
    this.waiting = [];
    this.timer = null;
    this.burst = null;
    this.singles = new Map();
    this.bursts = server.channel("springtide-bursts");
    this.bursts.addEventListener("message", ({ data }) => this.#leave(data));
    document.addEventListener("visibilitychange", () => this.#soon());
  }

  /** Shows a notification of the event stream: at once, or when the page comes into sight, unless another page has. */
  hear(notice) {
    if (!notice.channels.includes(CHANNEL)) return;
    this.waiting = [...this.waiting, notice].slice(-MOST_WAITING);
    this.#soon();
  }

  #soon() {
    if (document.hidden || !this.waiting.length) return;
    this.timer ??= setTimeout(() => this.#show(), GATHERED_MS);
  }

  async #show() {
    const notices = this.waiting;
    this.waiting = [];
    this.timer = null;
    const claimed = await this.server.claimNotices(notices).catch(() => unshared(notices));
    if (claimed.burst) this.#putBurst(claimed);
    else for (const notice of notices) if (claimed.ids.includes(notice.id)) this.#putOne(notice);
  }

  #putOne({ id, job, event, title, text }) {
    const actions = job
      ? [
          { label: "Open", caption: "Open the job", callback: () => this.open.job(job) },
          { label: "Log", caption: "Open the job's log", callback: () => this.open.job(job, "log") },
        ]
      : [];
    const autoClose = event === "failed" ? FAILURE_SHOWN_MS : SHOWN_MS;
    const notice = noticeOf(this.apputils, `${title} ${text}`.trim(), actions);
    const shown = this.Notification.emit(notice.message, TYPES[event] ?? "info", {
      actions: notice.actions,
      autoClose,
    });
    this.singles.set(id, shown);
    if (this.singles.size > MOST_WAITING) this.singles.delete(this.singles.keys().next().value);
  }

  /**
   * Counts the events of a burst in one notice, which changes while further ones follow and leaves the other pages.
   * @param replaced the ids of notices before, which are in the counts and leave all pages
   */
  #putBurst({ burst, counts, replaced = [] }) {
    const open = { label: "My Jobs", caption: "Open the table of your jobs", callback: () => this.open.jobs() };
    const { message, actions } = noticeOf(this.apputils, burstWords(counts), [open]);
    const type = counts.failed ? "error" : "info";
    const options = { actions, autoClose: FAILURE_SHOWN_MS };
    const isSame = burst !== UNSHARED && this.burst?.number === burst;
    const isShown = isSame && this.Notification.update({ id: this.burst.id, message, type, ...options });
    if (!isShown) this.burst = { number: burst, id: this.Notification.emit(message, type, options) };
    if (burst !== UNSHARED) this.bursts.postMessage({ number: burst, replaced });
    this.#replace(replaced);
  }

  /** Takes off this page what the notice of a burst counts on another one: earlier notices, and its own with fewer events. */
  #leave({ number, replaced }) {
    this.#replace(replaced);
    if (this.burst?.number !== number) return;
    this.Notification.dismiss(this.burst.id);
    this.burst = null;
  }

  #replace(ids) {
    for (const id of ids) {
      if (this.singles.has(id)) this.Notification.dismiss(this.singles.get(id));
      this.singles.delete(id);
    }
  }
}

/** What a page shows that cannot ask the server: all it has heard. */
function unshared(notices) {
  return {
    ids: notices.map(({ id }) => id),
    burst: notices.length > MOST_SINGLE ? UNSHARED : 0,
    counts: countsOf(notices),
  };
}
