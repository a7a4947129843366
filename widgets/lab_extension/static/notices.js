/** Notices of one's jobs in JupyterLab: one for each event over all open pages, and one for all events of a burst. */

import { clean, count, listed } from "./visuals/base/words.js";

const CHANNEL = "jupyterlab";
const GATHERED_MS = 300;
const CALM_MS = 10_000;
const MOST_SINGLE = 3;
const MOST_WAITING = 1000;
const SHOWN_MS = 10_000;
const FAILURE_SHOWN_MS = 30_000;
const TYPES = { failed: "error", paused: "warning", "time-limit": "warning", fault: "warning", workspace: "warning" };
const COUNTED = {
  failed: "failed",
  ended: "ended",
  "succeeded-soon": "ended",
  paused: "paused",
  resumed: "resumed",
  "time-limit": "near the time limit",
};

export class Notices {
  /**
   * @param Notification JupyterLab's manager of notifications
   * @param server `NotebookServer`
   * @param open `job(id, part)` opens a job, at its `log` or as a whole; `jobs()` opens the table of jobs
   */
  constructor(Notification, server, open) {
    this.Notification = Notification;
    this.server = server;
    this.open = open;
    this.waiting = [];
    this.timer = null;
    this.recent = [];
    this.burst = null;
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
    const own = await this.server.claimNotices(notices.map(({ id }) => id)).catch(() => null);
    this.#put(own === null ? notices : notices.filter(({ id }) => own.ids.includes(id)), performance.now());
  }

  #put(notices, now) {
    if (!notices.length) return;
    this.recent = this.recent.filter((at) => now - at < CALM_MS);
    if (this.burst !== null && now - this.burst.at > CALM_MS) this.burst = null;
    if (this.burst === null && this.recent.length + notices.length <= MOST_SINGLE) {
      for (const notice of notices) this.#putOne(notice);
      this.recent.push(...notices.map(() => now));
    } else this.#putBurst(notices, now);
  }

  #putOne({ job, event, title, text }) {
    const actions = job
      ? [
          { label: "Open", caption: "Open the job", callback: () => this.open.job(job) },
          { label: "Log", caption: "Open the job's log", callback: () => this.open.job(job, "log") },
        ]
      : [];
    const autoClose = event === "failed" ? FAILURE_SHOWN_MS : SHOWN_MS;
    this.Notification.emit(clean(`${title} ${text}`.trim()), TYPES[event] ?? "info", { actions, autoClose });
  }

  /** Counts events in one notice, which changes while further ones follow. */
  #putBurst(notices, now) {
    this.burst ??= { id: null, counts: new Map() };
    const { counts } = this.burst;
    for (const { event } of notices) {
      const words = COUNTED[event] ?? "of the pool";
      counts.set(words, (counts.get(words) ?? 0) + 1);
    }
    const all = [...counts.values()].reduce((sum, number) => sum + number, 0);
    const parts = [...counts].map(([words, number]) => `${number} ${words}`);
    const content = {
      message: `${count(all, "event")} of your jobs: ${listed(parts)}.`,
      type: counts.has("failed") ? "error" : "info",
      actions: [{ label: "My Jobs", caption: "Open the table of your jobs", callback: () => this.open.jobs() }],
      autoClose: FAILURE_SHOWN_MS,
    };
    const { message, type, ...options } = content;
    const isShown = this.burst.id !== null && this.Notification.update({ id: this.burst.id, ...content });
    if (!isShown) this.burst.id = this.Notification.emit(message, type, options);
    this.burst.at = now;
  }
}
