// Copyright (c) 2026, trainyard.gpu_node contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later
// The data of a panel, as Grafana's Prometheus data source and its panel editor make them: data frames with the
// transformations, units, thresholds, mappings and overrides of the panel applied.
import * as grafana from '@grafana/data';
import { lastValueFrom } from 'rxjs';

const { FieldType, toDataFrame } = grafana;
export const theme = grafana.createTheme({ colors: { mode: 'dark' } });

// What Grafana's core registers when it starts.
const property = (id) => ({
  id, path: id, name: id, process: (value) => value, shouldApply: () => true, editor: () => null, override: () => null,
});
const STANDARD = ['unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'color', 'thresholds', 'mappings', 'links',
  'fieldMinMax', 'filterable', 'actions'];
grafana.standardFieldConfigEditorRegistry.setInit(() => STANDARD.map(property));
// Some are exported by two names.
const TRANSFORMERS = new Map(Object.values(grafana.standardTransformers).map((one) => [one.id, one]));
grafana.standardTransformersRegistry.setInit(() =>
  [...TRANSFORMERS.values()].map((one) => ({ id: one.id, name: one.name, transformation: one, editor: () => null })));
grafana.setTimeZoneResolver?.(() => 'utc');

// The custom properties of a panel type with their defaults; an override of any other is not applied.
const CUSTOM = {
  timeseries: {
    drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, gradientMode: 'none', showPoints: 'auto',
    pointSize: 5, axisPlacement: 'auto', axisColorMode: 'text', scaleDistribution: { type: 'linear' }, barAlignment: 0,
    spanNulls: false, insertNulls: false, stacking: { mode: 'none', group: 'A' }, axisLabel: '', axisSoftMin: undefined,
    axisSoftMax: undefined, axisWidth: undefined, lineStyle: undefined, fillBelowTo: undefined, transform: undefined,
    hideFrom: { tooltip: false, viz: false, legend: false }, thresholdsStyle: { mode: 'off' }, axisBorderShow: false,
    axisCenteredZero: false, axisGridShow: true,
  },
  table: { align: 'auto', cellOptions: { type: 'auto' }, inspect: false, width: undefined, minWidth: undefined,
    hidden: undefined, filterable: undefined },
};

function registry(type) {
  const found = new grafana.FieldConfigOptionsRegistry();
  STANDARD.forEach((id) => found.register(property(id)));
  Object.keys(CUSTOM[type] || {}).forEach((path) => found.register({ ...property('custom.' + path), path, isCustom: true }));
  return found;
}

async function ask(context, expr, range) {
  const url = new URL(context.prometheus + (range ? '/api/v1/query_range' : '/api/v1/query'));
  url.searchParams.set('query', context.fill(expr));
  const times = range ? { start: context.from, end: context.to, step: context.step } : { time: context.to };
  Object.entries(times).forEach(([name, value]) => url.searchParams.set(name, value));
  const answer = await (await fetch(url)).json();
  if (answer.status !== 'success') {
    throw new Error(`${answer.error}: ${context.fill(expr)}`);
  }
  return answer.data.result;
}

const number = (text) => (text === 'NaN' ? NaN : text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : +text);

function legend(target, labels) {
  if (target.legendFormat && target.legendFormat !== '__auto') {
    return target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_all, name) => labels[name] ?? '');
  }
  const words = Object.entries(labels).filter(([name]) => name !== '__name__').map(([name, value]) => `${name}="${value}"`);
  return words.length ? `${labels.__name__ || ''}{${words.join(', ')}}` : labels.__name__ || target.expr;
}

function tableFrame(target, result, several) {
  const names = [...new Set(result.flatMap((one) => Object.keys(one.metric)))].filter((name) => name !== '__name__').sort();
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: result.map((one) => one.value[0] * 1000) },
      ...names.map((name) => ({
        name, type: FieldType.string, config: { filterable: true }, values: result.map((one) => one.metric[name] ?? ''),
      })),
      { name: several ? 'Value #' + target.refId : 'Value', type: FieldType.number, values: result.map((one) => number(one.value[1])) },
    ],
  });
}

function seriesFrame(target, one, step) {
  const points = new Map((one.values || [one.value]).map(([time, value]) => [time, number(value)]));
  const times = [...points.keys()], all = [];
  // A gap stays a gap.
  for (let time = times[0]; time <= times[times.length - 1]; time += step) {
    all.push(time);
  }
  const name = legend(target, one.metric);
  return toDataFrame({
    refId: target.refId,
    name,
    fields: [
      { name: 'Time', type: FieldType.time, config: { interval: step * 1000 }, values: all.map((time) => time * 1000) },
      {
        name: 'Value', type: FieldType.number, labels: one.metric, config: { displayNameFromDS: name },
        values: all.map((time) => points.get(time) ?? null),
      },
    ],
  });
}

// Cumulative buckets, sorted by their bound, as the number in each bucket.
function buckets(frames) {
  const bound = (frame) => number(frame.fields[1].labels.le);
  const sorted = [...frames].sort((a, b) => bound(a) - bound(b));
  const at = (frame, time) => frame.fields[1].values[frame.fields[0].values.indexOf(time)] ?? 0;
  return sorted.map((frame, index) => {
    const values = frame.fields[0].values.map((time, i) => frame.fields[1].values[i] - (index ? at(sorted[index - 1], time) : 0));
    return { ...frame, fields: [frame.fields[0], { ...frame.fields[1], values }] };
  });
}

async function frames(panel, context) {
  const found = [];
  for (const target of panel.targets.filter((one) => !one.hide)) {
    const result = await ask(context, target.expr, target.range);
    if (target.format === 'table') {
      found.push(tableFrame(target, result, panel.targets.length > 1));
    } else {
      const made = result.map((one) => seriesFrame(target, one, context.step));
      found.push(...(target.format === 'heatmap' ? buckets(made) : made));
    }
  }
  return found.filter((frame) => frame.length);
}

// In JSON the first step has no value.
const steps = (thresholds) => thresholds?.steps.forEach((step) => { step.value ??= -Infinity; });

export async function prepare(panel, context) {
  let data = await frames(panel, context);
  if (panel.transformations?.length) {
    data = await lastValueFrom(grafana.transformDataFrame(panel.transformations, data, { interpolate: context.fill }));
  }
  const fieldConfig = structuredClone(panel.fieldConfig || { defaults: {}, overrides: [] });
  fieldConfig.defaults.custom = { ...CUSTOM[panel.type], ...fieldConfig.defaults.custom };
  fieldConfig.defaults.color ??= { mode: panel.type === 'timeseries' ? 'palette-classic' : 'thresholds' };
  steps(fieldConfig.defaults.thresholds);
  fieldConfig.overrides.forEach((one) => one.properties.forEach((it) => it.id === 'thresholds' && steps(it.value)));
  const fieldConfigRegistry = registry(panel.type);
  const known = { replaceVariables: context.fill, theme, timeZone: 'utc', fieldConfigRegistry };
  return { data: grafana.applyFieldOverrides({ data, fieldConfig, ...known }), fieldConfig };
}

const text = (field, value) => grafana.formattedValueToString(field.display(value));

// What a test reads: the rows of a table as shown, with the labels in it by column; or name, value, text and colour of
// each series.
export function summary(panel, data) {
  if (panel.type === 'table') {
    const fields = (data[0]?.fields || []).filter((field) => !field.config.custom?.hidden);
    const rows = Array.from({ length: data[0]?.length || 0 }, (_none, row) => fields.map((field) => text(field, field.values[row])));
    const labels = Object.fromEntries(fields.flatMap((field, index) =>
      field.type === FieldType.string ? [[index, field.values]] : []));
    return { columns: fields.map((field) => grafana.getFieldDisplayName(field, data[0], data)), rows, labels };
  }
  const series = data.flatMap((frame) => frame.fields.filter((field) => field.type === FieldType.number).map((field) => {
    const known = field.values.filter((value) => value !== null), last = known[known.length - 1];
    const shown = field.display(last ?? null);
    const color = panel.type === 'timeseries' ? grafana.getFieldSeriesColor(field, theme).color : shown.color;
    return { name: grafana.getFieldDisplayName(field, frame, data), labels: field.labels, points: known.length,
      last, text: grafana.formattedValueToString(shown), color };
  }));
  return { series };
}
