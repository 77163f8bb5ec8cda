// Page of the gateway: its views.
import { begin, load } from './shell.js';
import { showTraffic } from './operate-traffic.js';

begin(
  [
    [/^#\/traffic$/, showTraffic],
    [/^#\/requests$/, load('./operate-requests.js', 'showRequests')],
    [/^#\/spending$/, load('./operate-spending.js', 'showSpending')],
    [/^#\/spending\/([^/]+)$/, load('./operate-spending.js', 'showKeySpending')],
    [/^#\/keys$/, load('./operate-keys.js', 'showKeys')],
    [/^#\/routing$/, load('./operate-routing.js', 'showRouting')],
  ],
  () => '#/traffic',
  ['#/traffic', 'Traffic'],
);
