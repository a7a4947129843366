/** Commands of the pool, with their places in the command palette. */

const CATEGORY = "Springtide";

/**
 * Adds a command. Its icon shows everywhere but in the palette, which has none in JupyterLab; `palette` may be null.
 * Chosen in the palette it begins once that has closed and given the focus back: it may move it, or a dialog return it.
 */
export function addCommand(app, palette, id, command, icon) {
  const execute = async (args) => {
    if (args.isPalette) await new Promise((resolve) => setTimeout(resolve));
    return command.execute(args);
  };
  app.commands.addCommand(id, { ...command, execute, icon: ({ isPalette }) => (isPalette ? undefined : icon) });
  palette?.addItem({ command: id, category: CATEGORY, args: { isPalette: true } });
}
