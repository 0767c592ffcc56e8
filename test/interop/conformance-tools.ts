/**
 * The tools that the official conformance suite calls by name, as local tools.
 * The suite defines the names, texts and schemas (`conformance list --server`, the requirements of each scenario).
 *
 * Missing on purpose: tools that ask the host for sampling, roots or input, change the list, or send
 * log messages. The context of a local tool has no such function. `conformance-expected.json` lists the scenarios of
 * the suite about them with the reason.
 */
import { defineTool } from '@holdfast/tools';

/** 1x1 red PNG. */
const redPixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
/** A WAV header with no samples. */
const silence = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=';

const image = { type: 'image', data: redPixel, mimeType: 'image/png' } as const;

/** Resolves after `ms`, or at once if the attempt is aborted: the end of the attempt decides what happens next. */
const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });

export const simpleText = defineTool({
  name: 'test_simple_text',
  description: 'Returns one text block.',
  input: {},
  readOnly: true,
  async run() {
    return 'This is a simple text response for testing.';
  },
});

export const imageContent = defineTool({
  name: 'test_image_content',
  description: 'Returns one image block.',
  input: {},
  readOnly: true,
  async run() {
    return { content: [image] };
  },
});

export const audioContent = defineTool({
  name: 'test_audio_content',
  description: 'Returns one audio block.',
  input: {},
  readOnly: true,
  async run() {
    return { content: [{ type: 'audio', data: silence, mimeType: 'audio/wav' }] };
  },
});

export const embeddedResource = defineTool({
  name: 'test_embedded_resource',
  description: 'Returns one embedded resource.',
  input: {},
  readOnly: true,
  async run() {
    return {
      content: [
        {
          type: 'resource',
          resource: {
            uri: 'test://embedded-resource',
            mimeType: 'text/plain',
            text: 'This is an embedded resource content.',
          },
        },
      ],
    };
  },
});

export const multipleContentTypes = defineTool({
  name: 'test_multiple_content_types',
  description: 'Returns a text, an image and an embedded resource.',
  input: {},
  readOnly: true,
  async run() {
    return {
      content: [
        { type: 'text', text: 'Multiple content types test:' },
        image,
        {
          type: 'resource',
          resource: {
            uri: 'test://mixed-content-resource',
            mimeType: 'application/json',
            text: JSON.stringify({ test: 'data', value: 123 }),
          },
        },
      ],
    };
  },
});

export const errorHandling = defineTool({
  name: 'test_error_handling',
  description: 'Always throws.',
  input: {},
  async run() {
    throw new Error('This tool intentionally returns an error for testing');
  },
});

export const toolWithProgress = defineTool({
  name: 'test_tool_with_progress',
  description: 'Reports 0, 50 and 100 of 100.',
  input: {},
  async run(_args, ctx) {
    for (const value of [0, 50, 100]) {
      ctx.progress(value, 100, `Completed step ${value} of 100`);
      await pause(50, ctx.signal);
    }
    return 'Tool with progress executed successfully.';
  },
});

/** Reports progress before it answers, so that the answer must be a stream; the suite looks for requests on it. */
export const streamingElicitation = defineTool({
  name: 'test_streaming_elicitation',
  description: 'Answers over a stream.',
  input: {},
  async run(_args, ctx) {
    ctx.progress(1, 2, 'Half-way');
    await pause(20, ctx.signal);
    return 'Streamed.';
  },
});

/** Its log lines are for the operator: none of them may reach a host as `notifications/message`. */
export const loggingTool = defineTool({
  name: 'test_logging_tool',
  description: 'Writes to the log.',
  input: {},
  async run(_args, ctx) {
    ctx.log.info({}, 'tool execution started');
    return 'Logged.';
  },
});

/** Long enough for a host to read the first event of the stream before the result arrives. */
export const reconnection = defineTool({
  name: 'test_reconnection',
  description: 'Answers after a moment.',
  input: {},
  async run(_args, ctx) {
    await pause(500, ctx.signal);
    return 'Reconnection test completed.';
  },
});

export const jsonSchema202012 = defineTool({
  name: 'json_schema_2020_12_tool',
  description: 'Tool with JSON Schema 2020-12 features',
  input: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
      address: {
        $anchor: 'addressDef',
        type: 'object',
        properties: { street: { type: 'string' }, city: { type: 'string' } },
      },
    },
    properties: {
      name: { type: 'string' },
      address: { $ref: '#/$defs/address' },
      contactMethod: { type: 'string', enum: ['phone', 'email'] },
      phone: { type: 'string' },
      email: { type: 'string' },
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
  },
  async run(args) {
    return `Received: ${JSON.stringify(args)}`;
  },
});

/** Requests a header (SEP-2243). The request must not reach hosts: the suite reports that it finds no such tool. */
export const customHeader = defineTool({
  name: 'test_custom_header',
  description: 'Takes a parameter that is mirrored in a header.',
  input: {
    type: 'object',
    properties: { region: { type: 'string', 'x-mcp-header': 'Region' } },
    required: ['region'],
  },
  readOnly: true,
  async run(args) {
    return `Region: ${JSON.stringify(args)}`;
  },
});

/** The one tool of the Tasks scenarios that must stay a plain call. The others come with the extension. */
export const greet = defineTool({
  name: 'greet',
  description: 'Greets by name, at once.',
  input: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  readOnly: true,
  async run(args) {
    return `Hello, ${String(args['name'])}!`;
  },
});
