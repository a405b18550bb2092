/** A style sheet as text, which the build puts into the module. */
declare module "*.css?inline" {
  const css: string;
  export default css;
}
