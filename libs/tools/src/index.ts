export type { ToolContext, ToolLog } from './context.js';
export {
  defineTool,
  isTool,
  type StandardSchema,
  type Tool,
  type ToolDefinition,
  type ToolInput,
  type ToolSpec,
} from './define-tool.js';
export { recordResult, type RecordedResult } from './result.js';
export { compileSchema, type JsonSchema, type Problem, type SchemaCheck } from './schema.js';
