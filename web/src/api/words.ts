import type { components } from "./schema";

type S = components["schemas"];
/** T with some fields that are null where there is none; the OpenAPI document cannot say that of a reference. */
type Nullable<T, K extends keyof T> = Omit<T, K> & { [P in K]: T[P] | null };

export type Account = S["Account"];
export type Agent = S["Agent"];
export type Approval = S["Approval"];
export type Attempt = S["Attempt"];
export type AttributeChange = S["AttributeChange"];
export type AuditRecord = S["AuditRecord"];
export type Counts = S["Counts"];
export type Hold = S["Hold"];
export type Holder = S["Holder"];
export type IssuedAgent = S["IssuedAgent"];
export type Lock = S["Lock"];
export type LogChunk = S["LogChunk"];
export type ProblemBody = S["Problem"];
export type Resource = S["Resource"];
export type ResourceDetail = S["ResourceDetail"];
export type ResourceInstance = S["ResourceInstance"];
export type RunComponent = Nullable<S["RunComponent"], "plan">;
export type RunEvent = S["Event"];
export type RunListed = S["RunListed"];
export type RunPlan = S["RunPlan"];
export type RunStatus = RunListed["status"];
export type Run = Omit<S["Run"], "components"> & { components: RunComponent[] };
export type State = Nullable<S["State"], "lock" | "hold" | "updated_by">;
export type StateDiff = S["StateDiff"];
export type StateOutput = S["StateOutput"];
export type StateOutputs = S["StateOutputs"];
export type StateResources = S["StateResources"];
export type StateValue = S["StateValue"];
export type StateVersion = S["StateVersion"];
export type Whoami = S["Whoami"];
export type List<T> = { items: T[]; next: string };
