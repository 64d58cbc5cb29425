// Opens a report as a reader would: light and dark, wide and narrow. Fails on console errors, on any
// request, on what axe-core finds, and on a page that is wider than its window.
// Usage: node report.mjs REPORT.html SCREENSHOTS

import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import AxeBuilder from "@axe-core/playwright";
import { chromium } from "playwright-core";

const [report, screenshots] = process.argv.slice(2);
const address = pathToFileURL(resolve(report)).href;
mkdirSync(screenshots, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
  ],
});
const problems = [];
for (const colorScheme of ["light", "dark"]) {
  for (const width of [1100, 400]) {
    const where = `${colorScheme}, ${width} px`;
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } });
    const page = await context.newPage();
    page.on("console", (message) => problems.push(`${where}: console: ${message.text()}`));
    page.on("pageerror", (error) => problems.push(`${where}: ${error}`));
    page.on("request", (request) => {
      if (request.url() !== address) problems.push(`${where}: requested ${request.url()}`);
    });
    await page.goto(address);
    if ((await page.locator("script").count()) > 0) problems.push(`${where}: has scripts`);
    const overflow = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    if (overflow > 0) problems.push(`${where}: ${overflow} px wider than the window`);
    await page.screenshot({ path: `${screenshots}/${colorScheme}-${width}.png`, fullPage: true });
    // The tables too: what a tap on a drawing shows, and a screen reader gets beside it.
    for (const summary of await page.locator("summary").all()) await summary.click();
    const wider = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    if (wider > 0) problems.push(`${where}: ${wider} px wider than the window with all open`);
    await page.screenshot({ path: `${screenshots}/${colorScheme}-${width}-open.png`, fullPage: true });
    const { violations } = await new AxeBuilder({ page }).analyze();
    for (const { id, help, nodes } of violations) {
      problems.push(`${where}: axe ${id}: ${help}: ${nodes.map((node) => node.html).join(" ")}`);
    }
    await context.close();
  }
}
await browser.close();
for (const problem of problems) console.error(problem);
console.log(`${report}: ${problems.length} problems`);
process.exit(problems.length > 0 ? 1 : 0);
