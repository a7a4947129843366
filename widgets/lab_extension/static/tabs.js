/** Tabs of JupyterLab's main area: one for each job, and the table of jobs. They are there again after a reload. */

import { chooseJob } from "./choosing.js";
import { h, patch } from "./visuals/base/dom.js";
import { button, emptyState, stage } from "./visuals/base/glyphs.js";
import { clean, clockNow } from "./visuals/base/words.js";
import { showJob } from "./visuals/live/job_view.js";
import { showRuns } from "./visuals/live/run_list.js";
import { filtersOf } from "./visuals/views/run_filters.js";

export const OPEN_JOB = "springtide:open-job";
const OPEN_BOARD = "springtide:open-tensorboard";
export const OPEN_JOBS = "springtide:open-jobs";
const IS_ID = /^[A-Za-z0-9]{1,64}$/;
const LATEST = { query: "mine=1&order=newest&limit=100", title: "Open which job?", none: "You have sent no job yet." };
const DRAWN_MS = 3000;
const CATEGORY = "Springtide";

/**
 * Adds the commands that open a job and the table of jobs: as tabs in JupyterLab, elsewhere on their own pages. Links to
 * jobs in cards and lists open tabs as well, unless a key says that the browser is to open them.
 * @param pages the address of the pool's pages, empty if it is not known
 * @param Shown `Widget` with content while it is visible
 */
export function addTabs(app, shared, feed, pages, parts, Shown, icon) {
  const { shell, launcher, palette } = parts;
  const openPage = (path) => window.open(`${pages}${path}`, "_blank", "noopener");
  const places = shell ? inTabs(app, shared, feed, pages, parts, Shown, icon) : null;
  app.commands.addCommand(OPEN_JOBS, {
    label: "My Jobs",
    caption: "The table of your jobs, with their arguments and metrics",
    icon,
    isVisible: () => Boolean(shell || pages),
    execute: () => (places ? places.jobs() : openPage("")),
  });
  app.commands.addCommand(OPEN_JOB, {
    label: "Open a Job…",
    caption: "Open one of your jobs, with its log, metrics and files",
    icon,
    isVisible: () => Boolean(shell || pages),
    execute: async ({ job, part }) => {
      try {
        const id = IS_ID.test(job) ? job : await chooseJob(shared, feed, LATEST);
        if (id === null) return;
        if (places) places.job(id, part);
        else openPage(`jobs/${id}`);
      } catch (error) {
        await shared["@jupyterlab/apputils"].showErrorMessage("No job was opened", clean(error.message));
      }
    },
  });
  app.commands.addCommand(OPEN_BOARD, {
    label: "TensorBoard of a Job…",
    caption: "Open TensorBoard with the metrics and event files of one of your jobs",
    icon,
    execute: async () => {
      try {
        const id = await chooseJob(shared, feed, { ...LATEST, title: "TensorBoard of which job?" });
        if (id !== null) window.open(feed.links.boardOf([id]), "_blank", "noopener");
      } catch (error) {
        await shared["@jupyterlab/apputils"].showErrorMessage("TensorBoard was not opened", clean(error.message));
      }
    },
  });
  for (const command of [OPEN_JOBS, OPEN_JOB, OPEN_BOARD]) palette?.addItem({ command, category: CATEGORY });
  launcher?.add({ command: OPEN_JOBS, category: CATEGORY, rank: 10 });
}

/** Opens jobs, and the table of jobs, in tabs: `job(id, part)` and `jobs()`. */
function inTabs(app, shared, feed, pages, { restorer }, Shown, icon) {
  const { MainAreaWidget, WidgetTracker } = shared["@jupyterlab/apputils"];
  const [JobTab, RunsTab] = [jobTab(Shown, feed, icon), runsTab(Shown, feed, pages, icon)];
  const jobs = new WidgetTracker({ namespace: "springtide-job" });
  const runs = new WidgetTracker({ namespace: "springtide-runs" });
  restorer?.restore(jobs, {
    command: OPEN_JOB,
    args: ({ content }) => ({ job: content.job }),
    name: ({ content }) => content.job,
  });
  restorer?.restore(runs, { command: OPEN_JOBS, name: () => "runs" });
  const show = (tracker, found, id, make) => {
    const tab = tracker.find(found) ?? new MainAreaWidget({ content: make() });
    tab.id = id;
    if (!tracker.has(tab)) tracker.add(tab);
    if (!tab.isAttached) app.shell.add(tab, "main", { type: CATEGORY });
    app.shell.activateById(id);
    return tab.content;
  };
  document.addEventListener("click", (event) => {
    const id = clickedJob(event, feed.links.pageOf);
    if (id === null) return;
    event.preventDefault();
    app.commands.execute(OPEN_JOB, { job: id });
  });
  return {
    job: (id, part) => {
      const isIt = ({ content }) => content.job === id;
      const tab = show(jobs, isIt, `springtide-job-${id}`, () => new JobTab(id));
      if (part === "log") tab.showLog();
    },
    jobs: () =>
      show(
        runs,
        () => true,
        "springtide-runs",
        () => new RunsTab(),
      ),
  };
}

/** The id of the job whose link was clicked in a card or a list, without a key; null if there is none, or its tab is here. */
function clickedJob(event, pageOf) {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
    return null;
  const link = event.target.closest?.(".springtide a[href]");
  const id = link?.getAttribute("href").split("/").at(-1) ?? "";
  if (!IS_ID.test(id) || link.getAttribute("href") !== pageOf(id)) return null;
  return link.closest("[data-job-tab]")?.dataset.jobTab === id ? null : id;
}

/** The content of a tab: the card of a job, live while it is visible. */
function jobTab(Shown, feed, icon) {
  return class extends Shown {
    constructor(job) {
      super((element) => this.#begin(element));
      this.job = job;
      this.known = null;
      this.wantsLog = false;
      this.title.label = "Job";
      this.title.caption = `Job ${job}`;
      this.title.icon = icon;
      this.title.closable = true;
      this.addClass("springtide-tab");
      this.node.dataset.jobTab = job;
    }

    /** Unfolds the log and scrolls to it as soon as it is drawn. */
    showLog() {
      this.wantsLog = true;
      this.#unfoldLog();
    }

    #begin(element) {
      let end = null;
      let isOver = false;
      const card = document.createElement("article");
      element.replaceChildren(card);
      const show = () => {
        this.title.label = clean(this.known.name) || this.job;
        this.title.caption = `${clean(this.known.name)} (${this.job}) of ${clean(this.known.project)}`;
        end = showJob(card, feed, { job: this.known, at: clockNow() });
        this.#unfoldLog();
      };
      const ask = async () => {
        drawWords(card, "Connecting to the pool…", null);
        try {
          this.known = await feed.call("GET", `jobs/${encodeURIComponent(this.job)}`);
          if (!isOver) show();
        } catch (error) {
          if (!isOver) drawWords(card, error.message, ask);
        }
      };
      if (this.known === null) ask();
      else show();
      return () => {
        isOver = true;
        this.known = feed.jobs.get(this.job)?.job ?? this.known;
        end?.();
      };
    }

    /** The log is read after the card has appeared. */
    #unfoldLog() {
      const until = performance.now() + DRAWN_MS;
      const look = () => {
        const log = this.node.querySelector("[data-testid=job-log]");
        if (log === null && performance.now() < until && this.isVisible) requestAnimationFrame(look);
        if (log === null) return;
        this.wantsLog = false;
        log.open = true;
        log.scrollIntoView({ block: "nearest" });
      };
      if (this.wantsLog) look();
    }
  };
}

/** The content of the tab with the table of jobs; it keeps its filters while it is open. */
function runsTab(Shown, feed, pages, icon) {
  return class extends Shown {
    constructor() {
      super((element) => this.#begin(element));
      this.filters = filtersOf("?show=all&order=newest");
      this.title.label = "My jobs";
      this.title.caption = "The table of your jobs";
      this.title.icon = icon;
      this.title.closable = true;
      this.addClass("springtide-tab");
    }

    #begin(element) {
      const message = document.createElement("div");
      const table = document.createElement("div");
      stage(message, "st-message");
      stage(table, "st-runs");
      element.replaceChildren(message, table);
      const say = (error) =>
        patch(message, error && h("p", { key: "error", class: "st-notice", role: "alert" }, clean(error.message)));
      const { stop } = showRuns(table, feed, {
        filters: this.filters,
        owner: window.location.pathname.split("/lab")[0],
        choose: (filters) => {
          this.filters = filters;
          say(null);
        },
        title: (words) => {
          this.title.label = words;
        },
        attempt: async (work) => {
          try {
            const answer = await work();
            say(null);
            return answer;
          } catch (error) {
            say(error);
            return null;
          }
        },
        tagHref: pages ? (tag) => `${pages}?${new URLSearchParams({ tag, show: "all" })}` : null,
        download: null,
        drawNone: (title) =>
          emptyState(title, "Send one with pool.submit(…), or a script from the file browser's context menu."),
      });
      return stop;
    }
  };
}

function drawWords(element, words, again) {
  stage(element, "st-card");
  patch(
    element,
    h("p", { key: "words", class: "st-muted", role: "status", "data-testid": "tab-words" }, clean(words)),
    again && button("tab-again", "Try again", again),
  );
}
