/** Notices of one's jobs in JupyterLab: one for each event over all open pages, and one for all events of a burst. */

import { burstWords, countsOf, GATHERED_MS, MOST_SINGLE } from "./visuals/base/bursts.js";
import { clean } from "./visuals/base/words.js";

const CHANNEL = "jupyterlab";
/** The number of bursts that no server has counted. */
const UNSHARED = -1;
const MOST_WAITING = 1000;
const SHOWN_MS = 10_000;
const FAILURE_SHOWN_MS = 30_000;
const TYPES = { failed: "error", paused: "warning", "time-limit": "warning", fault: "warning", workspace: "warning" };
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
    this.burst = null;
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

  /** Counts the events of a burst in one notice, which changes while further ones follow and leaves the other pages. */
  #putBurst({ burst, counts }) {
    const message = burstWords(counts);
    const type = counts.failed ? "error" : "info";
    const options = {
      actions: [{ label: "My Jobs", caption: "Open the table of your jobs", callback: () => this.open.jobs() }],
      autoClose: FAILURE_SHOWN_MS,
    };
    const isSame = burst !== UNSHARED && this.burst?.number === burst;
    const isShown = isSame && this.Notification.update({ id: this.burst.id, message, type, ...options });
    if (!isShown) this.burst = { number: burst, id: this.Notification.emit(message, type, options) };
    if (burst !== UNSHARED) this.bursts.postMessage({ number: burst });
  }

  /** Takes the notice of a burst off this page: another one shows it with more events. */
  #leave({ number }) {
    if (this.burst?.number !== number) return;
    this.Notification.dismiss(this.burst.id);
    this.burst = null;
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
