/** The plugins of JupyterLab and Notebook. */

import { addEnvironments } from "./environments.js";
import { FormBackend } from "./form_backend.js";
import { NotebookServer } from "./notebook_server.js";
import { cardFactory } from "./outputs.js";
import { showPanel, showStatus } from "./pool_panel.js";
import { addCommands } from "./sending.js";
import { addTerminals } from "./terminals.js";
import { followStream } from "./visuals/live/event_stream.js";
import { PoolFeed } from "./visuals/live/pool_feed.js";

const SHEETS = ["tokens", "bars", "card", "charts", "sweep", "form", "outputs", "rows"];
const RANK = -20;
const PANEL = "springtide-pool";
const MARK = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" width="16" height="16">
  <g class="jp-icon3" fill="#616161"><rect x="1" y="9" width="3" height="6"/><rect x="5" y="5" width="3" height="10"/><rect x="9" y="7" width="3" height="8"/><rect x="13" y="2" width="2" height="13"/></g>
</svg>`;

/** Makes the plugins from the modules shared by the page, by name. */
export function plugins(shared) {
  const { PageConfig } = shared["@jupyterlab/coreutils"];
  const server = new NotebookServer(shared["@jupyterlab/services"].ServerConnection);
  const pages = PageConfig.getOption("springtidePages");
  const pageOf = (id) => (pages ? `${pages}jobs/${encodeURIComponent(id)}` : null);
  const follow = (on, show) => followStream(server.open, on, show);
  const feed = new PoolFeed({ ...server, follow }, { pageOf, target: "_blank" });
  for (const sheet of SHEETS) addStyleSheet(new URL(`visuals/styles/${sheet}.css`, import.meta.url));
  return [outputs(shared, feed, server), frame(shared, feed, server, pages)];
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

/** The side panel, the state in the status bar, and the commands that submit jobs: each if the page has a place for it. */
function frame(shared, feed, server, pages) {
  const tokens = {
    shell: shared["@jupyterlab/application"]?.ILabShell,
    status: shared["@jupyterlab/statusbar"]?.IStatusBar,
    files: shared["@jupyterlab/filebrowser"]?.IFileBrowserFactory,
    documents: shared["@jupyterlab/docmanager"]?.IDocumentManager,
    notebooks: shared["@jupyterlab/notebook"]?.INotebookTracker,
    launcher: shared["@jupyterlab/launcher"]?.ILauncher,
    palette: shared["@jupyterlab/apputils"]?.ICommandPalette,
  };
  const names = Object.keys(tokens).filter((name) => tokens[name]);
  return {
    id: "@springtide/lab:plugin",
    description: "The pool in the side panel and the status bar, and commands that send jobs and make environments.",
    autoStart: true,
    optional: names.map((name) => tokens[name]),
    activate: (app, ...found) => {
      const parts = Object.fromEntries(names.map((name, place) => [name, found[place]]));
      const icon = new shared["@jupyterlab/ui-components"].LabIcon({ name: "springtide:pool", svgstr: MARK });
      addCommands(app, shared, feed, server, pages, parts, icon);
      addEnvironments(app, shared, server, parts, icon);
      if (parts.shell) addTerminals(app, shared, feed, server, parts, icon);
      if (parts.shell) addPanel(app, shared, feed, pages, icon);
      if (parts.status) addStatus(app, parts.status, shared, feed);
    },
  };
}

function addPanel(app, shared, feed, pages, icon) {
  const panel = new (shownWhileVisible(shared["@lumino/widgets"].Widget))((element) => showPanel(element, feed, pages));
  panel.id = PANEL;
  panel.title.caption = "The pool";
  panel.title.icon = icon;
  app.shell.add(panel, "left", { rank: 610, type: "Springtide" });
}

function addStatus(app, statusBar, shared, feed) {
  const open = () => app.shell.activateById(PANEL);
  const item = new (shownWhileVisible(shared["@lumino/widgets"].Widget))((element) => showStatus(element, feed, open));
  statusBar.registerStatusItem("@springtide/lab:status", { item, align: "left", rank: 50 });
}

/** A widget with content only while it is attached and visible, so that it costs nothing otherwise. */
function shownWhileVisible(Widget) {
  return class extends Widget {
    constructor(show) {
      super();
      this.begin = show;
      this.end = null;
    }

    onAfterShow() {
      this.end ??= this.begin(this.node);
    }

    onAfterAttach() {
      if (this.isVisible) this.onAfterShow();
    }

    onBeforeHide() {
      this.end?.();
      this.end = null;
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
