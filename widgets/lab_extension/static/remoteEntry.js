/**
 * The container that JupyterLab and Notebook load: module federation without a bundler. `init` receives the modules
 * shared by the page, `get` returns a module of this extension. All others are plain ES modules beside this file.
 */
(() => {
  const here = document.currentScript.src;
  const needed = [
    "@jupyterlab/application",
    "@jupyterlab/apputils",
    "@jupyterlab/coreutils",
    "@jupyterlab/docmanager",
    "@jupyterlab/filebrowser",
    "@jupyterlab/launcher",
    "@jupyterlab/notebook",
    "@jupyterlab/outputarea",
    "@jupyterlab/rendermime",
    "@jupyterlab/services",
    "@jupyterlab/statusbar",
    "@jupyterlab/translation",
    "@jupyterlab/ui-components",
    "@lumino/widgets",
  ];
  const places = ["static", "stati%63", "stat%69c"];
  const againMs = 1000;
  let scope = {};

  /**
   * Loads the modules. The browser aborts loads when the machine joins another network, and does not retry a module
   * that failed to load: so each further try uses another address of the same directory.
   */
  async function load(tries = places) {
    try {
      return await import(new URL(`../${tries[0]}/plugins.js`, here));
    } catch (error) {
      if (tries.length === 1 || !(error instanceof TypeError)) throw error;
      await new Promise((resolve) => setTimeout(resolve, againMs));
      return load(tries.slice(1));
    }
  }

  /** The shared module that the page itself uses, else the newest. */
  async function shared(name) {
    const versions = Object.entries(scope[name] ?? {});
    if (!versions.length) return null;
    const order = new Intl.Collator("en", { numeric: true });
    const use = ([version, { loaded }]) => `${loaded ? 1 : 0} ${version}`;
    versions.sort((one, other) => order.compare(use(other), use(one)));
    const factory = await versions[0][1].get();
    return factory();
  }

  async function extension() {
    const { plugins } = await load();
    const modules = await Promise.all(needed.map(async (name) => [name, await shared(name)]));
    return plugins(Object.fromEntries(modules));
  }

  window._JUPYTERLAB ??= {};
  window._JUPYTERLAB["@springtide/lab"] = {
    init(given) {
      scope = given;
    },
    async get(name) {
      if (name !== "./extension") throw new Error(`@springtide/lab has no module ${name}`);
      const made = { __esModule: true, default: await extension() };
      return () => made;
    },
  };
})();
