/** Tabs of JupyterLab's main area: one for each job, and the table of jobs. They are there again after a reload. */

import { chooseJob } from "./choosing.js";
import { addCommand } from "./commands.js";
import { keepPage } from "./links.js";
import { h, patch } from "./visuals/base/dom.js";
import { button, emptyState, stage } from "./visuals/base/glyphs.js";
import { clean, clockNow } from "./visuals/base/words.js";
import { showJob } from "./visuals/live/job_view.js";
import { showRuns } from "./visuals/live/run_list.js";
import { filtersOf, queryOf } from "./visuals/views/run_filters.js";

export const OPEN_JOB = "springtide:open-job";
const OPEN_BOARD = "springtide:open-tensorboard";
export const OPEN_JOBS = "springtide:open-jobs";
const LATEST = { query: "mine=1&order=newest&limit=100", title: "Open which job?", none: "You have sent no job yet." };
const USUAL = "show=all&order=latest";
const DRAWN_MS = 3000;
const CATEGORY = "Springtide";

/**
 * Adds the commands that open a job and the table of jobs: as tabs in JupyterLab, elsewhere on their own pages. Links to
 * jobs in cards and lists open tabs as well.
 * @param pages the address of the pool's pages, empty if it is not known
 * @param Shown `Widget` with content while it is visible
 */
export function addTabs(app, shared, feed, pages, parts, Shown, icon) {
  const { shell, launcher, palette } = parts;
  const openPage = (path) => window.open(`${pages}${path}`, "_blank", "noopener");
  const places = shell ? inTabs(app, shared, feed, pages, parts, Shown, icon) : null;
  keepPage(feed.links.pageOf, places && ((job) => app.commands.execute(OPEN_JOB, { job })));
  const openJobs = {
    label: "My Jobs",
    caption: "The table of your jobs, with their arguments and metrics",
    isVisible: () => Boolean(shell || pages),
    execute: ({ query }) => (places ? places.jobs(query) : openPage("")),
  };
  const openJob = {
    label: "Open a Job…",
    caption: "Open one of your jobs, with its log, metrics and files",
    isVisible: () => Boolean(shell || pages),
    execute: async ({ job, part, name }) => {
      try {
        const id = await chooseJob(shared, feed, job, LATEST);
        if (id === null) return;
        if (places) places.job(id, part, name);
        else openPage(`jobs/${id}`);
      } catch (error) {
        await shared["@jupyterlab/apputils"].showErrorMessage("No job was opened", clean(error.message));
      }
    },
  };
  const openBoard = {
    label: "TensorBoard of a Job…",
    caption: "Open TensorBoard with the metrics and event files of one of your jobs",
    execute: async ({ job }) => {
      try {
        const id = await chooseJob(shared, feed, job, {
          ...LATEST,
          title: "TensorBoard of which job?",
          none: "None of your latest jobs has a TensorBoard: it shows single jobs and trials.",
          offers: ({ trials }) => !trials,
        });
        if (id !== null) window.open(feed.links.boardOf([id]), "_blank", "noopener");
      } catch (error) {
        await shared["@jupyterlab/apputils"].showErrorMessage("TensorBoard was not opened", clean(error.message));
      }
    },
  };
  addCommand(app, palette, OPEN_JOBS, openJobs, icon);
  addCommand(app, palette, OPEN_JOB, openJob, icon);
  addCommand(app, palette, OPEN_BOARD, openBoard, icon);
  launcher?.add({ command: OPEN_JOBS, category: CATEGORY, rank: 10 });
}

/**
 * Opens jobs, and the table of jobs, in tabs: `job(id, part, name)`, with the name if it is known, and `jobs(query)`, with
 * the query of the filters at first. The layout keeps the names and the filters.
 */
function inTabs(app, shared, feed, pages, { restorer }, Shown, icon) {
  const { MainAreaWidget, WidgetTracker } = shared["@jupyterlab/apputils"];
  const [JobTab, RunsTab] = [jobTab(Shown, feed, icon), runsTab(Shown, feed, pages, icon)];
  const jobs = new WidgetTracker({ namespace: "springtide-job" });
  const runs = new WidgetTracker({ namespace: "springtide-runs" });
  restorer?.restore(jobs, {
    command: OPEN_JOB,
    args: ({ content }) => ({ job: content.job, name: content.name }),
    name: ({ content }) => content.job,
  });
  restorer?.restore(runs, {
    command: OPEN_JOBS,
    args: ({ content }) => ({ query: queryOf(content.filters).toString() }),
    name: () => "runs",
  });
  const show = (tracker, found, id, make) => {
    const tab = tracker.find(found) ?? new MainAreaWidget({ content: make() });
    tab.id = id;
    tab.content.keep = () => tracker.save(tab);
    if (!tracker.has(tab)) tracker.add(tab);
    if (!tab.isAttached) app.shell.add(tab, "main", { type: CATEGORY });
    app.shell.activateById(id);
    return tab.content;
  };
  return {
    job: (id, part, name) => {
      const isIt = ({ content }) => content.job === id;
      const tab = show(jobs, isIt, `springtide-job-${id}`, () => new JobTab(id, name));
      if (part === "log") tab.showLog();
    },
    jobs: (query) =>
      show(
        runs,
        () => true,
        "springtide-runs",
        () => new RunsTab(query),
      ),
  };
}

/** The content of a tab: the card of a job, live while it is visible. */
function jobTab(Shown, feed, icon) {
  return class extends Shown {
    /** @param name the job's name as the layout has kept it, if it has */
    constructor(job, name) {
      super((element) => this.#begin(element));
      this.job = job;
      this.name = typeof name === "string" ? name : "";
      this.keep = () => {};
      this.known = null;
      this.kept = {};
      this.wantsLog = false;
      this.title.label = clean(this.name) || `Job ${job}`;
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
        this.name = this.known.name;
        this.title.label = clean(this.name) || this.job;
        this.title.caption = `${clean(this.known.name)} (${this.job}) of ${clean(this.known.project)}`;
        end = showJob(card, feed, { job: this.known, at: clockNow() }, this.kept);
        this.#unfoldLog();
        this.keep();
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

/** The content of the tab with the table of jobs. */
function runsTab(Shown, feed, pages, icon) {
  return class extends Shown {
    /** @param query that of the filters as the layout has kept them, if it has */
    constructor(query) {
      super((element) => this.#begin(element));
      this.filters = filtersOf(typeof query === "string" ? query : USUAL);
      this.runs = null;
      this.keep = () => {};
      this.title.label = "My jobs";
      this.title.caption = "The table of your jobs";
      this.title.icon = icon;
      this.title.closable = true;
      this.addClass("springtide-tab");
    }

    #begin(element) {
      if (this.runs) this.runs.start();
      else this.runs = this.#make(element);
      return this.runs.stop;
    }

    #make(element) {
      const message = document.createElement("div");
      const table = document.createElement("div");
      stage(message, "st-message");
      stage(table, "st-runs");
      element.replaceChildren(message, table);
      const say = (error) =>
        patch(message, error && h("p", { key: "error", class: "st-notice", role: "alert" }, clean(error.message)));
      return showRuns(table, feed, {
        filters: this.filters,
        owner: window.location.pathname.split("/lab")[0],
        choose: (filters) => {
          this.filters = filters;
          this.keep();
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
        drawNone: (title) =>
          emptyState(title, "Send one with pool.submit(…), or a script from the file browser's context menu."),
      });
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
