/** Commands of the pool, with their places in the command palette. */

const CATEGORY = "Springtide";

/** Adds a command. Its icon shows everywhere but in the palette, which has none in JupyterLab; `palette` may be null. */
export function addCommand(app, palette, id, command, icon) {
  app.commands.addCommand(id, { ...command, icon: ({ isPalette }) => (isPalette ? undefined : icon) });
  palette?.addItem({ command: id, category: CATEGORY, args: { isPalette: true } });
}
