/** The plugins of JupyterLab and Notebook. */

import { addCommand } from "./commands.js";
import { addEnvironments } from "./environments.js";
import { FormBackend } from "./form_backend.js";
import { dismissWhenBack } from "./lost_server.js";
import { NotebookServer } from "./notebook_server.js";
import { Notices } from "./notices.js";
import { cardFactory } from "./outputs.js";
import { showPanel, showStatus } from "./pool_panel.js";
import { addCommands } from "./sending.js";
import { addTabs, OPEN_JOB, OPEN_JOBS } from "./tabs.js";
import { addTerminals } from "./terminals.js";
import { followEvents } from "./visuals/live/page_stream.js";
import { PoolFeed } from "./visuals/live/pool_feed.js";

const SHEETS = ["tokens", "bars", "card", "charts", "sweep", "form", "outputs", "rows", "runs"];
const RANK = -20;
const PANEL = "springtide-pool";
const SHOW_POOL = "springtide:show-pool";
const CHOOSE_NOTICES = "springtide:choose-notifications";
const MARK = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" width="16" height="16">
  <g class="jp-icon3" fill="#616161"><rect x="1" y="9" width="3" height="6"/><rect x="5" y="5" width="3" height="10"/><rect x="9" y="7" width="3" height="8"/><rect x="13" y="2" width="2" height="13"/></g>
</svg>`;

/** Makes the plugins from the modules shared by the page, by name. */
export function plugins(shared) {
  const { PageConfig } = shared["@jupyterlab/coreutils"];
  const server = new NotebookServer(shared["@jupyterlab/services"].ServerConnection);
  const pages = PageConfig.getOption("springtidePages");
  const pageOf = (id) => (pages ? `${pages}jobs/${encodeURIComponent(id)}` : null);
  const follow = (on, show) => {
    const hidden = { isWanted: () => feed.noticeViews.size > 0, on: { notification: on.notification } };
    return followEvents(server.events, server.reads, on, show, { hidden });
  };
  const compareOf = (ids) => compareAddress(pages, ids);
  const links = { pageOf, target: "_blank", boardOf: server.boardOf, ...(pages && { compareOf }) };
  const feed = new PoolFeed({ ...server, follow }, links);
  for (const sheet of SHEETS) addStyleSheet(new URL(`visuals/styles/${sheet}.css`, import.meta.url));
  return [outputs(shared, feed, server), frame(shared, feed, server, pages)];
}

function compareAddress(pages, ids) {
  return `${pages}compare?${new URLSearchParams(ids.map((id) => ["job", id]))}`;
}

/** Draws outputs of the pool's own types, before the views of ipywidgets, which has rank -10. */
function outputs(shared, feed, server) {
  const { INotebookTracker, NotebookActions } = shared["@jupyterlab/notebook"] ?? {};
  return {
    id: "@springtide/lab:outputs",
    description: "Live cards of jobs and of the pool, and the form to submit jobs, without a kernel.",
    autoStart: true,
    requires: [shared["@jupyterlab/rendermime"].IRenderMimeRegistry],
    optional: INotebookTracker ? [INotebookTracker] : [],
    activate: (_app, registry, notebooks) => {
      const panelOf = (element) => notebooks?.find((panel) => panel.node.contains(element)) ?? null;
      const backendOf = (element) => new FormBackend(server, () => panelOf(element), NotebookActions?.executed ?? null);
      registry.addFactory(cardFactory(shared["@lumino/widgets"].Widget, feed, backendOf), RANK);
    },
  };
}

/** The side panel, the status bar, tabs, notices and commands: each if the page has a place for it. */
function frame(shared, feed, server, pages) {
  const tokens = {
    shell: shared["@jupyterlab/application"]?.ILabShell,
    restorer: shared["@jupyterlab/application"]?.ILayoutRestorer,
    status: shared["@jupyterlab/statusbar"]?.IStatusBar,
    files: shared["@jupyterlab/filebrowser"]?.IFileBrowserFactory,
    documents: shared["@jupyterlab/docmanager"]?.IDocumentManager,
    notebooks: shared["@jupyterlab/notebook"]?.INotebookTracker,
    launcher: shared["@jupyterlab/launcher"]?.ILauncher,
    palette: shared["@jupyterlab/apputils"]?.ICommandPalette,
    translator: shared["@jupyterlab/translation"]?.ITranslator,
  };
  const names = Object.keys(tokens).filter((name) => tokens[name]);
  return {
    id: "@springtide/lab:plugin",
    description: "The pool and one's jobs in the side panel, the status bar, tabs, notices and commands.",
    autoStart: true,
    optional: names.map((name) => tokens[name]),
    activate: (app, ...found) => {
      const parts = Object.fromEntries(names.map((name, place) => [name, found[place]]));
      const icon = new shared["@jupyterlab/ui-components"].LabIcon({ name: "springtide:pool", svgstr: MARK });
      const Shown = shownWhileVisible(shared["@lumino/widgets"].Widget);
      addTabs(app, shared, feed, pages, parts, Shown, icon);
      addPages(app, pages, parts, icon);
      addCommands(app, shared, server, parts, icon);
      addEnvironments(app, shared, server, parts, icon);
      if (parts.shell) {
        addTerminals(app, shared, feed, server, parts, icon);
        addPanel(app, Shown, feed, pages, parts, icon);
        addNotices(app, shared, feed, server);
      }
      const { PageConfig } = shared["@jupyterlab/coreutils"];
      dismissWhenBack(
        shared["@jupyterlab/apputils"],
        parts.translator,
        PageConfig.getOption("baseUrl"),
        server.answers,
      );
      if (parts.status) addStatus(app, Shown, parts.status, feed);
    },
  };
}

/** Commands that show the pool, and pages of the pool, with their places in the palette. */
function addPages(app, pages, { shell, palette }, icon) {
  const openPage = (path) => window.open(`${pages}${path}`, "_blank", "noopener");
  const commands = {
    [SHOW_POOL]: {
      label: "The Pool",
      caption: "Show the GPUs of the pool and your jobs in the side panel",
      isVisible: () => Boolean(shell || pages),
      execute: () => (shell ? showPool(app) : openPage("pool")),
    },
    [CHOOSE_NOTICES]: {
      label: "Notifications…",
      caption: "Choose your notifications, also those in JupyterLab",
      isVisible: () => Boolean(pages),
      execute: () => openPage("notifications"),
    },
  };
  for (const [id, command] of Object.entries(commands)) addCommand(app, palette, id, command, icon);
}

/** Shows the panel with the focus in it, from where the keyboard goes on. */
function showPool(app) {
  app.shell.activateById(PANEL);
  document.getElementById(PANEL).focus();
}

function addNotices(app, shared, feed, server) {
  const notices = new Notices(shared["@jupyterlab/apputils"], server, {
    job: (job, part) => app.commands.execute(OPEN_JOB, { job, part }),
    jobs: () => app.commands.execute(OPEN_JOBS),
  });
  feed.watchNotices((notice) => notices.hear(notice));
}

function addPanel(app, Shown, feed, pages, { restorer }, icon) {
  const panel = new Shown((element) => showPanel(element, feed, pages));
  panel.id = PANEL;
  panel.node.tabIndex = -1;
  panel.title.caption = "The pool";
  panel.title.icon = icon;
  app.shell.add(panel, "left", { rank: 610, type: "Springtide" });
  restorer?.add(panel, PANEL);
}

function addStatus(app, Shown, statusBar, feed) {
  const open = () => app.commands.execute(SHOW_POOL);
  const item = new Shown((element) => showStatus(element, feed, open));
  statusBar.registerStatusItem("@springtide/lab:status", { item, align: "left", rank: 50 });
}

/**
 * A widget with content only while it is attached and visible, so that it costs nothing otherwise. One shown again at
 * once, as all of JupyterLab is after a change of the theme, stays as it is.
 */
function shownWhileVisible(Widget) {
  return class extends Widget {
    constructor(show) {
      super();
      this.begin = show;
      this.end = null;
      this.leaving = null;
    }

    onAfterShow() {
      clearTimeout(this.leaving);
      this.leaving = null;
      this.end ??= this.begin(this.node);
    }

    onAfterAttach() {
      if (this.isVisible) this.onAfterShow();
    }

    onBeforeHide() {
      this.leaving ??= setTimeout(() => {
        this.leaving = null;
        this.end?.();
        this.end = null;
      });
    }

    onBeforeDetach() {
      this.onBeforeHide();
    }
  };
}

function addStyleSheet(href) {
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = href;
  document.head.append(link);
}
