// The axis of the waterfall: places of moments, and ticks. Long pauses, in which nothing works, are shortened.
import { tellDuration } from './words.js';

const TICKS = 6;
const IDLE_SHARE = 0.1; // a longer pause, as a share of the work, is shortened
const MOST_PAUSES = 12; // only the longest ones
const SHOWN_SHARE = 0.05;

export const startOf = (step) => Date.parse(step.started) / 1000;
export const secondsOf = (step, now) =>
  step.seconds === null ? Math.max(0, now / 1000 - startOf(step)) : step.seconds;
export const endOf = (step, now) => startOf(step) + secondsOf(step, now);

// Places of moments between 0 and 1.
export function composeScale(steps, now) {
  const isWork = (step) =>
    step.state !== 'waiting' && step.kind !== 'approval' && !(step.kind === 'visit' && step.conversations.length);
  const edges = steps.flatMap((step) => [startOf(step), endOf(step, now)]);
  const begin = edges.reduce((least, each) => Math.min(least, each), Infinity);
  const end = edges.reduce((most, each) => Math.max(most, each), -Infinity);
  if (!edges.length || !Number.isFinite(end - begin))
    return { place: () => 0, passed: () => 0, pauses: [], survey: () => [] };
  const busy = steps
    .filter(isWork)
    .map((step) => [startOf(step), endOf(step, now)])
    .sort((one, other) => one[0] - other[0]);
  const pauses = [];
  let reached = begin;
  for (const [from, to] of [...busy, [end, end]]) {
    if (from > reached) pauses.push([reached, from]);
    reached = Math.max(reached, to);
  }
  const work = end - begin - pauses.reduce((sum, [from, to]) => sum + to - from, 0);
  const long = work > 0 ? pauses.filter(([from, to]) => to - from > Math.max(0.2, IDLE_SHARE * work)) : [];
  const shortened = long
    .sort((one, other) => other[1] - other[0] - (one[1] - one[0]))
    .slice(0, MOST_PAUSES)
    .sort((one, other) => one[0] - other[0]);
  const length = SHOWN_SHARE * Math.max(work, 0.001);
  const total = end - begin - shortened.reduce((sum, [from, to]) => sum + (to - from) - length, 0) || 1;

  // Seconds on the axis; a pause has the same length, however long it was.
  function map(moment) {
    let seconds = Math.min(end, Math.max(begin, moment)) - begin;
    for (const [from, to] of shortened) {
      if (moment >= to) seconds -= to - from - length;
      else if (moment > from) return seconds - (moment - from) + (length * (moment - from)) / (to - from);
      else break;
    }
    return seconds;
  }
  function unmap(seconds) {
    let moment = begin + seconds;
    for (const [from, to] of shortened) {
      if (moment <= from) break;
      moment += Math.max(to - from - length, 0);
    }
    return Math.min(moment, end);
  }
  const place = (moment) => map(moment) / total;
  return {
    place,
    passed: (moment) => moment - begin,
    pauses: shortened.map(([from, to]) => ({ from: place(from), to: place(to), seconds: to - from })),
    // Ticks at round times within a part of the axis.
    survey(low, high) {
      const step = round(((high - low) * total) / TICKS);
      const ticks = [];
      let moment = begin + step * Math.ceil((unmap(low * total) - begin) / step - 1e-9);
      for (let tries = 0; tries < 500 && moment <= end + 1e-9; tries += 1, moment += step) {
        const at = place(moment);
        const paused = shortened.find(([from, to]) => moment > from && moment < to);
        if (paused) {
          moment = begin + step * (Math.ceil((paused[1] - begin) / step) - 1); // the next one is behind the pause
          continue;
        }
        if (at > high + 1e-9) break;
        const isHidden = shortened.some(([from, to]) => at > place(from) - 0.03 * (high - low) && at < place(to));
        if (!isHidden && (!ticks.length || at - ticks.at(-1)[0] >= 0.12 * (high - low)))
          ticks.push([at, tellTick(moment - begin, step)]);
      }
      return ticks.filter(([at]) => at <= low + 0.94 * (high - low));
    },
  };
}

// Time since the beginning, as exact as the distance of the ticks.
function tellTick(seconds, step) {
  if (seconds < 1e-9) return '0';
  if (seconds < 60) return `${Number(seconds.toFixed(step < 0.01 ? 3 : step < 0.1 ? 2 : 1))} s`;
  const whole = Math.round(seconds);
  if (whole >= 86_400) return tellDuration(whole);
  const two = (number) => String(number).padStart(2, '0');
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

function round(seconds) {
  if (!(seconds > 0)) return 1;
  if (seconds > 1)
    return (
      [2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400].find(
        (each) => each >= seconds,
      ) ?? 86_400 * Math.ceil(seconds / 86_400)
    );
  const power = 10 ** Math.floor(Math.log10(seconds));
  return power * ([1, 2, 5, 10].find((each) => each * power >= seconds) ?? 10);
}
