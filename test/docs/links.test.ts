import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { expect, test } from '@jest/globals';

const root = join(import.meta.dirname, '../..');
const pages = ['*.md', 'docs/**/*.md', 'helm/**/*.md']
  .flatMap((glob) => globSync(glob, { cwd: root }))
  .sort();

/** The anchor that GitHub gives a heading. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

function withoutCode(text: string): string {
  return text.replace(/^```[\s\S]*?^```/gm, '');
}

function anchors(page: string): string[] {
  const headings = withoutCode(readFileSync(page, 'utf8')).matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, heading]) => anchorOf(heading!));
}

test.each(pages)('%s links to pages, files and headings that exist', (page) => {
  const links = withoutCode(readFileSync(join(root, page), 'utf8')).matchAll(/\]\(([^)\s]+)\)/g);
  const broken = [...links]
    .map(([, link]) => link!)
    .filter((link) => !/^https?:/.test(link))
    .filter((link) => {
      const [path = '', anchor] = link.split('#', 2);
      const target = path === '' ? join(root, page) : resolve(root, dirname(page), path);
      return !existsSync(target) || (anchor !== undefined && !anchors(target).includes(anchor));
    });
  expect(broken).toEqual([]);
});
