// Copyright (c) 2026, trainyard.gpu_node contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
// Draws a dashboard with Grafana's own components. window.draw(board, options) resolves to what is in each panel.
import '@fontsource/inter/latin-400.css';
import '@fontsource/inter/latin-500.css';
import React from 'react';
import { flushSync } from 'react-dom';
import { createRoot } from 'react-dom/client';
import { dateTime, getDisplayValueAlignmentFactors, getFieldDisplayName, getFieldDisplayValues } from '@grafana/data';
import { BarGauge, BigValue, PanelChrome, Table, ThemeContext, TimeSeries, VizRepeater } from '@grafana/ui';
import { prepare, summary, theme } from './data.jsx';

// Grafana's grid: 24 columns, 30 pixels a row and 8 between panels.
const COLUMNS = 24, ROW = 38, GAP = 8, HEAD = 44;
const muted = { color: theme.colors.text.secondary, fontSize: 12 };

function Repeated({ panel, data, fieldConfig, size, orientation, render }) {
  const getValues = () => getFieldDisplayValues({
    fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: (text) => text, theme, data, timeZone: 'utc' });
  return <VizRepeater getValues={getValues} source={data} {...size} orientation={orientation} renderCounter={1} autoGrid={true}
    minVizHeight={panel.options.minVizHeight ?? 16} maxVizHeight={panel.options.maxVizHeight ?? 300} itemSpacing={GAP}
    getAlignmentFactors={getDisplayValueAlignmentFactors} renderValue={render} />;
}

function Stat(props) {
  const { options } = props.panel;
  return <Repeated {...props} orientation="auto" render={({ value, width, height, count, alignmentFactors }) =>
    <BigValue value={{ ...value.display, title: count > 1 ? value.display.title : undefined }} theme={theme} width={width} height={height}
      alignmentFactors={count > 1 ? alignmentFactors : undefined} colorMode={options.colorMode} graphMode={options.graphMode} textMode={options.textMode} justifyMode={options.justifyMode}
      text={options.text} count={count} />} />;
}

function Bars(props) {
  const { options } = props.panel;
  return <Repeated {...props} orientation={options.orientation} render={({ value, width, height, orientation, alignmentFactors }) =>
    <BarGauge value={value.display} field={value.field} display={value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)}
      alignmentFactors={alignmentFactors} text={options.text} theme={theme} width={width} height={height} orientation={orientation} displayMode={options.displayMode}
      showUnfilled={options.showUnfilled ?? true} valueDisplayMode={options.valueMode} namePlacement={options.namePlacement} />} />;
}

// State timelines and heat maps are in Grafana's core and not in its packages: rectangles of the same data frames.
function Substitute({ panel, data, size, range }) {
  const heat = panel.type === 'heatmap', fields = data.map((frame) => frame.fields[1]);
  const most = Math.max(1, ...fields.flatMap((field) => field.values));
  const left = 200, height = Math.max(4, Math.min(24, (size.height - 20) / data.length));
  const [from, to] = [range.from.valueOf(), range.to.valueOf()], scale = (size.width - left) / (to - from);
  const rows = heat ? [...data].reverse() : data;
  return <svg width={size.width} height={size.height} fontSize="11" fill={theme.colors.text.primary}>
    {rows.map((frame, row) => {
      const [time, field] = frame.fields, step = time.config.interval * scale;
      return <g key={row} transform={`translate(0 ${row * height})`}>
        <text y={height * 0.7}>{getFieldDisplayName(field, frame, data)}</text>
        {time.values.map((at, i) => field.values[i] === null ? null :
          <rect key={i} x={left + (at - from) * scale} width={step + 0.5} height={height - 1}
            fill={heat ? theme.visualization.getColorByName('blue') : field.display(field.values[i]).color}
            fillOpacity={heat ? field.values[i] / most : 0.8} />)}
      </g>;
    })}
    <text y={size.height - 4} fill={theme.colors.text.secondary}>Plain substitute for a {panel.type}: not in Grafana's packages</text>
  </svg>;
}

function Series({ panel, data, size, range }) {
  return <TimeSeries frames={data} structureRev={1} timeRange={range} timeZone="utc" {...size} options={panel.options}
    legend={{ ...panel.options.legend, calcs: panel.options.legend.calcs || [] }} replaceVariables={(text) => text}>{() => null}</TimeSeries>;
}

function Rows({ panel, data, size, fieldConfig }) {
  return <Table data={data[0]} {...size} initialSortBy={panel.options.sortBy} showTypeIcons={false} noHeader={false}
    cellHeight={panel.options.cellHeight} fieldConfig={fieldConfig} enableSharedCrosshair={false} />;
}

const DRAWN = { timeseries: Series, stat: Stat, bargauge: Bars, table: Rows, heatmap: Substitute, 'state-timeline': Substitute };

class Body extends React.Component {
  state = { error: this.props.error };
  static getDerivedStateFromError(error) { return { error: String(error.stack || error) }; }
  render() {
    const { panel, data, fieldConfig } = this.props, Drawn = DRAWN[panel.type];
    if (this.state.error || !Drawn) {
      return <pre data-error="" style={{ color: 'red' }}>{this.state.error || `no component for ${panel.type}`}</pre>;
    }
    if (!data.length && panel.type !== 'stat') {
      return <div style={{ ...muted, padding: 20, textAlign: 'center' }}>{fieldConfig.defaults.noValue || 'No data'}</div>;
    }
    return <Drawn {...this.props} />;
  }
}

function Dashboard({ board, panels, variables, range, width }) {
  const column = width / COLUMNS, height = Math.max(...panels.map(({ panel: { gridPos: at } }) => at.y + at.h)) * ROW + HEAD;
  return <ThemeContext.Provider value={theme}>
    <div style={{ position: 'relative', width, height, background: theme.colors.background.canvas, color: theme.colors.text.primary }}>
      <div style={{ padding: '8px 12px', fontSize: 18 }}>{board.title} <span style={muted}>
        {Object.entries(variables).map(([name, value]) => `${name}: ${value}`).join('   ')}</span></div>
      {panels.map(({ panel, fill, ...made }, index) => {
        const at = panel.gridPos, size = { width: at.w * column - GAP, height: at.h * ROW - GAP };
        const place = { position: 'absolute', left: at.x * column + GAP / 2, top: at.y * ROW + HEAD };
        return <div key={index} data-panel={index} style={place}>{panel.type === 'row'
          ? <div style={{ paddingTop: 4, fontSize: 15, fontWeight: 500 }}>▾ {fill(panel.title)}</div>
          : <PanelChrome title={fill(panel.title)} description={panel.description} {...size}>{(innerWidth, innerHeight) =>
            <Body panel={panel} range={range} size={{ width: innerWidth, height: innerHeight }} {...made} />}</PanelChrome>}</div>;
      })}
    </div>
  </ThemeContext.Provider>;
}

// A row that repeats, once for each value of its variable, below each other.
function* places(board, values) {
  let down = 0, repeated = null, block = [];
  const moved = (panel, by, own) => ({ panel: { ...panel, gridPos: { ...panel.gridPos, y: panel.gridPos.y + by } }, own });
  function* end() {
    if (!repeated) return;
    const bottom = Math.max(...block.map(({ gridPos: at }) => at.y + at.h)), height = bottom - repeated.gridPos.y;
    const all = values[repeated.repeat] || [];
    for (const [index, value] of all.entries()) {
      for (const panel of block) yield moved(panel, down + index * height, { [repeated.repeat]: value });
    }
    down += height * (all.length - 1);
    repeated = null;
  }
  for (const panel of board.panels.flatMap((one) => [one, ...(one.panels || [])])) {
    if (panel.type === 'row') {
      yield* end();
      if (panel.repeat) [repeated, block] = [panel, []];
    }
    if (repeated) block.push(panel); else yield moved(panel, down, {});
  }
  yield* end();
}

// The largest letters of a panel in pixels, and whether part of a text or of a legend is out of sight.
function letters(drawn) {
  const own = [...drawn.querySelectorAll('*')].filter((one) => [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE));
  return Math.max(...own.map((one) => parseFloat(getComputedStyle(one).fontSize)));
}
const cut = (drawn) => [...drawn.querySelectorAll('*')].some((one) =>
  getComputedStyle(one).textOverflow === 'ellipsis' && one.scrollWidth > one.clientWidth);
const hidden = (drawn) => [...drawn.querySelectorAll('*')].some((one) =>
  one.clientHeight > 0 && one.scrollHeight > one.clientHeight + 4 && /auto|scroll|hidden/.test(getComputedStyle(one).overflowY));

function filled(variables, own) {
  const all = { ...variables, ...own };
  return (text) => text.replace(/\$\{?(\w+)(?::\w+)?\}?/g, (word, name) => (name in all ? all[name] : word));
}

window.draw = async (board, { prometheus, from, to, step, width, variables, values }) => {
  const panels = await Promise.all([...places(board, values)].map(async ({ panel, own }) => {
    const fill = filled({ ...variables, __rate_interval: '4m', __interval: step + 's', __range: to - from + 's' }, own);
    if (panel.type === 'row') return { panel, fill };
    try {
      return { panel, fill, ...(await prepare(panel, { prometheus, from, to, step, fill })) };
    } catch (error) {
      return { panel, fill, data: [], error: String(error.stack || error) };
    }
  }));
  const range = { from: dateTime(from * 1000), to: dateTime(to * 1000), raw: { from: dateTime(from * 1000), to: dateTime(to * 1000) } };
  // Grafana measures texts before it draws them.
  await Promise.all([400, 500].map((weight) => document.fonts.load(`${weight} 14px Inter`)));
  const root = document.getElementById('root');
  flushSync(() => createRoot(root).render(
    <Dashboard board={board} panels={panels} variables={variables} range={range} width={width} />));
  await new Promise((done) => setTimeout(done, 1500));
  return {
    height: root.firstChild.offsetHeight,
    panels: panels.flatMap(({ panel, fill, data, error }, index) => {
      if (panel.type === 'row') return [];
      const drawn = root.querySelector(`[data-panel="${index}"]`);
      return [{
        title: fill(panel.title), type: panel.type, error: error || drawn.querySelector('[data-error]')?.innerText,
        cut: panel.type !== 'table' && cut(drawn),
        letters: letters(drawn), hidden: panel.type === 'timeseries' && hidden(drawn),
        texts: drawn.innerText.split('\n').filter((line) => line.trim()), ...(error ? {} : summary(panel, data)),
      }];
    }),
  };
};
