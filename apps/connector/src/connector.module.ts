import { Module, type DynamicModule } from '@nestjs/common';
import { CallsController, Serving } from './calls.controller.js';

@Module({})
export class ConnectorModule {
  static of(serving: Serving): DynamicModule {
    return {
      module: ConnectorModule,
      controllers: [CallsController],
      providers: [{ provide: Serving, useValue: serving }],
    };
  }
}
