// Only the check: a static import of anything that needs a newer Node would fail before it.
if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(
    `Holdfast needs Node 24 or later, this is ${process.version}; use node_modules/.bin/node\n`,
  );
  process.exit(1);
}
await import('./app.js');

export {};
