// Looks at the service's page as a reader does. Run by tests/live/page.rs, which plays the service: each
// `say` waits until it has answered.
import assert from "node:assert/strict";
import { createInterface } from "node:readline/promises";
import { chromium } from "playwright-core";

const [address, browserPath, folder] = process.argv.slice(2);
const TIMEOUT = { timeout: 30_000 };

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function say(step) {
  console.log(step);
  return (await answers.next()).value;
}

const browser = await chromium.launch({
  executablePath: browserPath,
  headless: true,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});

const context = await browser.newContext({ colorScheme: "light", viewport: { width: 1100, height: 900 } });
const page = await context.newPage();
const troubles = [];
page.on("console", (message) => {
  if (["error", "warning"].includes(message.type())) troubles.push(`console: ${message.text()}`);
});
page.on("pageerror", (error) => troubles.push(`script: ${error}`));
page.on("requestfailed", (request) => {
  // A reader who follows a link cuts off what was still under way.
  const reason = request.failure()?.errorText;
  if (reason !== "net::ERR_ABORTED") troubles.push(`${reason}: ${request.url()}`);
});
page.on("request", (request) => {
  if (!request.url().startsWith(address)) troubles.push(`fetched from elsewhere: ${request.url()}`);
});
page.on("response", (response) => {
  if (response.status() >= 400) troubles.push(`${response.status()}: ${response.url()}`);
});

const connection = page.locator("#connection");
const state = (name) => page.locator(`#connection[data-state="${name}"]`).waitFor(TIMEOUT);
const tile = page.locator(".tiles dd").first();
const summary = page.locator("summary", { hasText: "Numbers: Hit rate" });

/** What Tab reaches, from the top to the bottom. */
async function tabOrder() {
  await page.evaluate(() => document.activeElement?.blur());
  const order = [];
  for (let steps = 0; steps < 100; steps += 1) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => {
      const element = document.activeElement;
      if (element === null || element === document.body) return null;
      const ring = getComputedStyle(element).outlineStyle !== "none";
      return `${ring ? "" : "invisible "}${element.tagName} ${element.textContent.trim().slice(0, 40)}`;
    });
    if (name === null) break;
    order.push(name);
  }
  return order;
}

// Before anything was published, and then without a reload.
await page.goto(address);
assert.match(await page.locator("main").innerText(), /No estimate yet/);
await page.evaluate(() => { window.sameDocument = true; });
await say("empty");
await page.locator("h2", { hasText: "Pool agents/us" }).waitFor(TIMEOUT);
await state("live");

// By keyboard alone.
await page.goto(`${address}/?pool=coding%2Feu&window=tumbling%3A5m`);
await state("live");
assert.equal(await page.locator("[data-part=section] svg:visible").count(), 3, "curve, history, traffic");
assert.equal(await page.locator("nav a[aria-current]").count(), 2, "the pool and window shown");
const order = await tabOrder();
for (const wanted of ["A agents/us", "A coding/eu", "A tumbling:5m", "A all", "SUMMARY Numbers: Hit rate by cache capacity"]) {
  assert.ok(order.includes(wanted), `Tab does not reach ${wanted}: ${order.join(", ")}`);
}
assert.ok(!order.some((name) => name.startsWith("invisible")), `focus cannot be seen: ${order.join(", ")}`);
await summary.focus();
await page.keyboard.press("Enter");
assert.ok(await summary.evaluate((element) => element.parentElement.open), "Enter opens the numbers");

// An estimate that comes while somebody reads changes the figures and nothing else.
await page.evaluate(() => { window.sameDocument = true; });
const before = { text: await tile.innerText(), scroll: await page.evaluate(() => window.scrollY) };
assert.ok(before.scroll > 0, "reading further down");
await say("reading");
await page.waitForFunction((old) => document.querySelector(".tiles dd").innerText !== old, before.text, TIMEOUT);
assert.ok(await page.evaluate(() => window.sameDocument), "no reload");
assert.ok(await summary.evaluate((element) => element.parentElement.open), "what was open stays open");
assert.ok(await summary.evaluate((element) => element === document.activeElement), "focus stays");
assert.equal(await page.evaluate(() => window.scrollY), before.scroll, "the place stays");

// Another pool, by its link.
await page.locator("nav a", { hasText: "agents/us" }).focus();
await page.keyboard.press("Enter");
await page.locator("h2", { hasText: "Pool agents/us" }).waitFor(TIMEOUT);
await page.goBack();
await page.locator("h2", { hasText: "Pool coding/eu" }).waitFor(TIMEOUT);
await state("live");

// Both themes, wide and narrow.
const grounds = new Set();
for (const colorScheme of ["light", "dark"]) {
  await page.emulateMedia({ colorScheme });
  grounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
  for (const width of [1100, 390]) {
    await page.setViewportSize({ width, height: 900 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(wide <= 0, `${wide} pixels stick out at a width of ${width}`);
    const torn = await page.evaluate(() => [...document.querySelectorAll("td[title]")].filter((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      return range.getClientRects().length > 1;
    }).map((cell) => cell.textContent));
    assert.deepEqual(torn, [], `figures are torn from their units at a width of ${width}`);
    await page.screenshot({ path: `${folder}/page-${colorScheme}-${width}.png`, fullPage: true });
  }
}
assert.equal(grounds.size, 2, "the themes differ");
await page.setViewportSize({ width: 1100, height: 900 });

assert.deepEqual(troubles, []);

// A service that has gone is said to have, and what is shown stays.
await say("leaving");
await state("away");
assert.match(await connection.innerText(), /Not reachable since/);
assert.ok(await page.locator("h2", { hasText: "Pool coding/eu" }).isVisible());
await page.emulateMedia({ colorScheme: "light" });
await page.screenshot({ path: `${folder}/page-away.png` });
await browser.close();
console.log("done");
process.exit(0);
