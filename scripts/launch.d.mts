export function launch(work: string): Promise<void>
