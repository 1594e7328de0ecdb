// Holds queries against Microsoft's own language service for Kusto, with Resource Graph's columns.
// Run by held.py, beside its npm package. Input: a JSON list of queries. Output: one line a query.
const fs = require('fs');
require('@kusto/language-service-next/bridge.js');
require('@kusto/language-service-next/Kusto.Language.Bridge.js');
const {KustoCode, GlobalState, Symbols} = Kusto.Language;
const texts = ['id', 'name', 'type', 'tenantId', 'location', 'resourceGroup', 'subscriptionId', 'managedBy'];
const dynamics = ['sku', 'plan', 'properties', 'tags', 'identity', 'zones', 'extendedLocation'];
const columns = [...texts.map(name => `${name}:string`), ...dynamics.map(name => `${name}:dynamic`)];
const tables = new (System.Collections.Generic.List$1(Symbols.Symbol).ctor)();
for (const name of ['Resources', 'ComputeResources']) {
  tables.add(Symbols.TableSymbol.From(`(${columns.join(',')})`).WithName(name));
}
const globals = GlobalState.Default.WithDatabase(new Symbols.DatabaseSymbol.ctor('graph', tables));
for (const query of JSON.parse(fs.readFileSync(0, 'utf8'))) {
  const found = KustoCode.ParseAndAnalyze(query, globals).GetDiagnostics();
  const said = System.Linq.Enumerable.from(found).ToArray().map(one => `${one.Severity}: ${one.Message}`);
  console.log(JSON.stringify(said));
}
