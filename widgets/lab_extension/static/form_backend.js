/** The backend of a form: the notebook's kernel for its functions, the notebook server for everything else. */

const NO_NOTEBOOK =
  "This form is not in a notebook, so there is no kernel that has functions. Submit from the form in the notebook.";
const NO_KERNEL =
  "A function is sent by the notebook's kernel, and none is running. Start it, and run the cell that defines the function.";
const BUSY = "The kernel is busy. When the running cell has ended, its functions can be chosen here.";
const SILENT = "The kernel did not answer; it may be busy or gone.";
const NOT_OURS = "This notebook's kernel cannot send functions: it needs Python with the package springtide[widgets].";
const ANSWER_MS = 60000;
const GONE = new Set(["restarting", "autorestarting", "terminating", "dead"]);

export class FormBackend {
  /**
   * @param server `NotebookServer`
   * @param panelOf returns the notebook panel of an element, or null
   * @param executed JupyterLab's signal of executed cells, or null
   */
  constructor(server, panelOf, executed) {
    this.server = server;
    this.panelOf = panelOf;
    this.executed = executed;
    this.asking = Promise.resolve();
    this.foundBusy = false;
  }

  form() {
    return this.server.form(this.#directory());
  }

  review(typed) {
    return this.server.review(typed);
  }

  functions() {
    return this.#ask({ do: "functions" });
  }

  check(work, given) {
    return this.#ask({ do: "arguments", work, arguments: given });
  }

  /** The parameters of a notebook, and the errors of typed ones. */
  preview(work, given) {
    return this.server.preview({ ...this.#work("notebook", work), arguments: given });
  }

  /** The environment of a job, and its image. */
  environment({ kind, work, typed }) {
    return kind === "function"
      ? this.#ask({ do: "environment", kind, work, typed })
      : this.server.environment(this.#work(kind, work), typed);
  }

  /** Submits; returns the job's id, the notes for its user, and the job itself for its card. */
  async submit({ kind, work, arguments: given, typed }) {
    const sent =
      kind === "function"
        ? await this.#ask({ do: "submit", kind, work, arguments: given, typed })
        : await this.server.sendTyped({ ...this.#work(kind, work), arguments: given }, typed);
    return { ...sent, job: await this.server.call("GET", `jobs/${encodeURIComponent(sent.id)}`) };
  }

  #work(kind, work) {
    const directory = this.#directory();
    return kind === "command" ? { command: work, directory } : { path: `${directory}/${work}` };
  }

  /** The directory of the notebook, relative to that of its server; JupyterLab puts a drive's name before a colon. */
  #directory() {
    const path = this.panelOf()?.context.path ?? "";
    return path
      .replace(/^[^/:]+:/, "")
      .split("/")
      .slice(0, -1)
      .join("/");
  }

  /**
   * Calls `changed` when a cell was run, a kernel that was found busy is idle, or the kernel was replaced.
   * Returns a function that ends that.
   */
  follow(changed) {
    const panel = this.panelOf();
    if (panel === null) return () => {};
    const { sessionContext } = panel;
    let gone = false;
    const ran = (_, { notebook }) => notebook === panel.content && changed();
    const renewed = () => changed();
    const turned = (_, status) => {
      if (!GONE.has(status) && !(status === "idle" && (gone || this.foundBusy))) return;
      gone = status !== "idle";
      this.foundBusy = false;
      changed();
    };
    this.executed?.connect(ran);
    sessionContext.kernelChanged.connect(renewed);
    sessionContext.statusChanged.connect(turned);
    return () => {
      this.executed?.disconnect(ran);
      sessionContext.kernelChanged.disconnect(renewed);
      sessionContext.statusChanged.disconnect(turned);
    };
  }

  /** Sends a request to the kernel, one at a time. None is queued behind a running cell. */
  #ask(question) {
    const answer = this.asking.then(() => this.#askNow(question));
    this.asking = answer.catch(() => {});
    return answer;
  }

  async #askNow(question) {
    const panel = this.panelOf();
    if (panel === null) throw new Error(NO_NOTEBOOK);
    const kernel = panel.sessionContext.session?.kernel;
    if (!kernel || GONE.has(kernel.status)) throw new Error(NO_KERNEL);
    if (kernel.status === "busy") {
      this.foundBusy = true;
      throw new Error(BUSY);
    }
    const text = JSON.stringify(JSON.stringify(question));
    const expression = `__import__("springtide.widgets.shared_pool", fromlist=["FormAnswer"]).FormAnswer(${text})`;
    const future = kernel.requestExecute({
      code: "",
      silent: true,
      store_history: false,
      user_expressions: { answer: expression },
      allow_stdin: false,
      stop_on_error: false,
    });
    const reply = await withinTime(future.done);
    const answer = reply.content.user_expressions?.answer;
    const found = answer?.status === "ok" ? answer.data["application/json"] : null;
    if (!found) throw new Error(NOT_OURS);
    if (found.error) throw Object.assign(new Error(found.error), { field: found.field });
    return found.value;
  }
}

/** The answer, or an error after a time-out: a restarted kernel never answers. */
function withinTime(answer) {
  let timer = null;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(SILENT)), ANSWER_MS);
  });
  return Promise.race([answer, late]).finally(() => clearTimeout(timer));
}
