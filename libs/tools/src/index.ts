export {
  classOf,
  heldToHints,
  hintsAmong,
  isOffered,
  isResendable,
  listedAnnotations,
  needsApproval,
  type ApprovalNeed,
  type HintedTool,
  type ListedAnnotations,
} from './classification.js';
export type { ToolContext } from './context.js';
export {
  defineTool,
  isTool,
  type StandardSchema,
  type Tool,
  type ToolDefinition,
  type ToolInput,
  type ToolSpec,
} from './define-tool.js';
export { readErrorData, type ErrorData } from './error-data.js';
export { readListedTool, type FitTool, type UnfitTool } from './fingerprint.js';
export { readKeptServer, readKeptTool, type Kept } from './kept-catalogue.js';
export { listedOutputSchema, listedSchema, withoutHeaderWishes, type ListedSchema } from './listed-schema.js';
export { passedOnMeta } from './meta.js';
export {
  leastLongestName,
  longestName,
  namingStyles,
  projectNames,
  type LeftOutName,
  type NamedServer,
  type NamingInput,
  type NamingStyle,
  type ProjectedNames,
} from './naming.js';
export { paramHeadersOf } from './param-headers.js';
export { recordResult, type RecordedResult } from './result.js';
export {
  compileOutputSchema,
  compileSchema,
  type JsonSchema,
  type Problem,
  type SchemaCheck,
} from './schema.js';
export {
  defaultRules,
  type ApprovalMode,
  type ServerCatalogue,
  type ServerRules,
  type UpstreamTool,
} from './server-catalogue.js';
export {
  recordUpstreamResult,
  type RecordedUpstreamResult,
  type UpstreamResultRules,
} from './upstream-result.js';
