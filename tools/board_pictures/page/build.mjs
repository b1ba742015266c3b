// Copyright (c) 2026, trainyard.gpu_node contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
// Bundles main.jsx with Grafana's components into one script: node build.mjs, in a directory that has node_modules.
import esbuild from 'esbuild';

// Grafana's modules take the default export of these CommonJS packages; esbuild gives .mjs files the whole module.
const COMMONJS = /^(react-custom-scrollbars-2|react-window-infinite-loader|react-highlight-words|react-inlinesvg)$/;
const interop = {
  name: 'interop',
  setup(build) {
    build.onResolve({ filter: COMMONJS }, (a) =>
      a.pluginData === 'real' ? undefined : { path: a.path, namespace: 'interop', pluginData: a.resolveDir });
    build.onLoad({ filter: /.*/, namespace: 'interop' }, (a) => ({
      contents: `const m = require('real:${a.path}'); module.exports = m.default || m; Object.assign(module.exports, m);`,
      resolveDir: a.pluginData,
    }));
    build.onResolve({ filter: /^real:/ }, (a) =>
      build.resolve(a.path.slice(5), { resolveDir: process.cwd(), kind: 'require-call', pluginData: 'real' }));
  },
};

await esbuild.build({
  entryPoints: ['main.jsx'],
  bundle: true,
  outfile: 'main.js',
  format: 'iife',
  define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
  loader: { '.svg': 'dataurl', '.woff': 'dataurl', '.woff2': 'dataurl', '.ttf': 'dataurl', '.png': 'dataurl' },
  plugins: [interop],
  logLevel: 'warning',
});
