const NAMES = ['PATH', 'HOME', 'npm_config_registry', 'npm_config_cache', 'npm_config_userconfig'];

/** The variables of an ordinary shell, and where npm finds packages. npm and the test runner set many more. */
export const USER_ENVIRONMENT: Readonly<Record<string, string>> = Object.fromEntries(
  NAMES.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  }),
);
